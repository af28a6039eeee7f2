"""Pages stay well-formed and without scripts of their own, whatever the names in the store are."""

import csv
import io
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from jinja2 import Template, nodes

from console.running_console import Operator, RunningConsole
from console.test_decisions import hold
from console.test_imports import FACTS, brought, send, settled
from console.test_members import TEL, look_up
from counterfoil.console import rendering, texts
from counterfoil.http.reference import page as reference_page
from counterfoil.web.templates import environment
from records import base, bills, branch, line, member
from running_service import free_port
from web.strict_html import StrictPage

# Those of the console, and those of the reference page, which the API draws.
FOLDERS = (Path(rendering.__file__).parent, Path(reference_page.__file__).parent)
TEMPLATES = sorted(path for folder in FOLDERS for path in (folder / "templates").glob("*.html"))
HOSTILE = (
    """"'><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7 * 7 }}{% raw %} javascript:alert(1) &amp; ไทย"""
)
# A value that an attribute with an address must not begin with.
SCHEME = "javascript:alert(1)"
ADDRESSES = ("href", "src", "action", "formaction")
# What a template must not contain, because the Content-Security-Policy blocks it or because it is not escaped.
UNQUOTED = re.compile(r"""<[a-z][^<>]*\s[\w-]+=(?!"")""", re.IGNORECASE)
UNESCAPED = re.compile(r"(?:\||filter)\s*safe\b|autoescape|Markup")
FORBIDDEN = {
    "an inline style": re.compile(r"""\sstyle\s*=""", re.IGNORECASE),
    "an event handler": re.compile(r"""\son[a-z]+\s*=""", re.IGNORECASE),
    "an inline script": re.compile(r"<script(?![^>]*\ssrc=)", re.IGNORECASE),
    "an address with a scheme": re.compile(r"""(?:href|src|action)="\s*(?!https?:)[a-z]+:""", re.IGNORECASE),
}


def violations(source: str) -> list[str]:
    """Return which rules a template breaks. Its expressions may call anything that escapes what it returns."""
    source = re.sub(r"\{#.*?#\}", "", source, flags=re.DOTALL)
    found = ["a text that is not escaped"] if UNESCAPED.search(source) else []
    markup = re.sub(r"\{%.*?%\}", "", source, flags=re.DOTALL)
    markup = re.sub(r"\{\{.*?\}\}", "{{}}", markup, flags=re.DOTALL)
    without_values = re.sub(r'"[^"]*"', '""', markup)
    found += ["an attribute without double quotes"] if UNQUOTED.search(without_values) else []
    return found + [what for what, pattern in FORBIDDEN.items() if pattern.search(markup)]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: f"{path.parents[1].name}/{path.stem}")
def test_a_template_has_no_inline_style_handler_script_or_unescaped_text(path: Path) -> None:
    assert violations(path.read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("{{ name|safe }}", "a text that is not escaped"),
        ("<p class={{ kind }}>", "an attribute without double quotes"),
        ('<p style="color: red">', "an inline style"),
        ("{% filter safe %}{{ name }}{% endfilter %}", "a text that is not escaped"),
        ("<p class='{{ kind }}'>", "an attribute without double quotes"),
        ('<P STYLE="color: red">', "an inline style"),
        ('<p onclick="go()">', "an event handler"),
        ('<svg ONLOAD = "go()">', "an event handler"),
        ("<script>go()</script>", "an inline script"),
        ('<a href="javascript:go()">', "an address with a scheme"),
        ('<button formaction=" DATA:text/html,go">', "an address with a scheme"),
    ],
)
def test_the_rules_for_templates_find_what_they_forbid(source: str, what: str) -> None:
    assert violations(source) == [what]


def assert_harmless(answer: httpx.Response, path: str) -> None:
    """Check that a page is well-formed, and has no script, image or address but its own."""
    page = StrictPage(answer.content)
    # Some addresses lead nowhere, but none of them fails.
    assert (path, answer.status_code < 500, page.problems) == (path, True, [])
    assert b"alert(1)&gt;49{" not in answer.content, path
    assert [script for script in page.named("script") if set(script) != {"src", "defer"}] == [], path
    assert [image for image in page.named("img") if not str(image["src"]).startswith("data:image/")] == [], path
    for _, attributes in page.elements:
        addresses = [attributes[name] or "" for name in ADDRESSES if name in attributes]
        assert [one for one in addresses if re.match(r"(?!https?:|data:image/)[a-z+]+:", one.strip())] == [], path


@contextmanager
def rendered_templates() -> Iterator[set[str]]:
    """Yield the names of the templates that are rendered meanwhile, also as a part of another one."""
    found: set[str] = set()
    console = rendering.templates()
    get_template = console.get_template

    def noted(name: str, *given: Any, **named: Any) -> Template:
        found.add(name)
        return get_template(name, *given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(console, "get_template", noted)
        yield found


def hostile_export(shop: str) -> bytes:
    """Return an export of an unknown till whose headings and values are hostile."""
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["Receipt No", "Date", "Branch", HOSTILE, "Subtotal", "VAT", "Tip", "Grand"])
    rows.writerow([1001, "2026-11-13 12:04", shop, HOSTILE, "100.00", "7.00", "5.00", "107.00"])
    rows.writerow([1002, "2026-11-13 13:04", shop, "Card", "200.00", "14.00", "0.00", "214.00"])
    rows.writerow([1003, "2026-11-13 14:10", "Old Town", HOSTILE, "50.00", "3.50", "10.00", "53.50"])
    return text.getvalue().encode()


def hostile_receipts() -> bytes:
    """Return an export of a known till with a hostile shop."""
    example = Path(__file__).parents[2] / "docs" / "examples" / "loyverse-receipts.csv"
    rows = list(csv.DictReader(io.StringIO(example.read_text("utf-8-sig"))))
    text = io.StringIO()
    written = csv.DictWriter(text, rows[0])
    written.writeheader()
    written.writerows(row | {"Store": HOSTILE} for row in rows)
    return text.getvalue().encode()


def pages_of_imports(operator: Operator) -> list[str]:
    """Bring hostile files in, and return the addresses of their pages: a question, facts of shops, and totals."""
    asked = brought(operator, (f"{HOSTILE}.csv", hostile_export(HOSTILE)))
    facts = brought(operator, (f"{SCHEME}.csv", hostile_receipts()))
    totals = brought(operator, ("totals.csv", hostile_receipts()))
    send(operator, f"{totals}/answers", **FACTS)
    assert settled(operator, totals, "reading")["state"] == "checked"
    return [asked, facts, totals]


def assert_forms_harmless(operator: Operator) -> None:
    """Send forms with hostile values, and check the pages that answer them."""
    entered = {"label": HOSTILE, "scope": "other", "other_kind": "shop", "other_id": HOSTILE}
    fields = operator.fill_in("/keys/new", "/keys/new", per_min="60", per_day="1000", **entered)
    for _ in ("issued", "sent before"):
        assert_harmless(operator.send("/keys/new", fields), "/keys/new")
    revealed = {"line": "1", "source": operator.json("/loads/3.json")["rejects"][0]["source"]}
    assert_harmless(operator.send("/loads/3/reveal", revealed), "/loads/3/reveal")
    for who in (TEL, HOSTILE):
        assert_harmless(look_up(operator, who), "/find/customer")


def test_every_template_shows_hostile_names_as_text(tmp_path: Path) -> None:
    with rendered_templates() as rendered, closing(RunningConsole(tmp_path, console_port=free_port())) as console:
        shop = branch(name=HOSTILE, providerId=HOSTILE)
        sold: dict[str, Any] = {"receiptNumber": HOSTILE, "cashier": HOSTILE, "table": {"id": SCHEME, "name": SCHEME}}
        sold |= {"lines": [line(name=HOSTILE)], "payments": [{"name": HOSTILE, "amount": 120, "change": 0}]}
        loaded = bills(shop, 3, **sold)
        console.service.load(shop, base(shop), member(shop, tel=TEL), *loaded)
        named_like_an_address = branch(name=SCHEME, id=SCHEME)
        console.service.load(named_like_an_address, *bills(named_like_an_address, 1, id=SCHEME))
        console.service.key(shop=SCHEME, label=SCHEME)
        item = hold(console, shop["id"], loaded[0]["id"])
        console.service.load(b'{"kind":"bill"}')
        key = console.service.key(shop=shop["id"], label=HOSTILE, personal_data=True)
        console.service.get("members", key, providerId=shop["providerId"])
        failed = console.service.get("transactions", key, shopId="elsewhere").headers["x-request-id"]
        console.service.restart()
        hostile, key_page, shop_page = quote(HOSTILE, safe=""), f"/keys/{key.split('_')[2]}", f"/shops/{shop['id']}"
        paths = [
            "/",
            "/keys",
            "/keys/new",
            "/shops",
            "/loads",
            "/loads/1",
            "/loads/1/undo",
            "/loads/2",
            "/loads/3",
            item,
        ]
        paths += [shop_page, f"{shop_page}/days/2026-01-01", f"/bills/{quote(SCHEME)}", f"/find?q={quote(SCHEME)}"]
        paths += [f"{shop_page}/settings?franchise={hostile}&timezone={hostile}", f"{shop_page}/settings?franchise=g"]
        paths += [f"/bills/{loaded[0]['id']}?shop={shop['id']}", f"/bills/{hostile}"]
        paths += ["/personal-data", "/store", "/devices", "/audit", "/reference/try/listShops", "/sign-in", "/imports"]
        paths += [f"{key_page}?tab={tab}" for tab in ("use", "copy", "errors", "audit", "change", "rotate", "revoke")]
        paths += [f"/requests?{name}={hostile}" for name in ("request", "key", "route", "error", "status", "since")]
        paths += [f"/requests?request={failed}", f"/find?q={hostile}", f"/audit?key={hostile}"]
        paths += [f"/shops?filter={hostile}&sort={hostile}", f"/requests/{hostile}", f"/today?range={hostile}"]
        paths += pages_of_imports(console.operator(HOSTILE))
        for language in ("en", "th"):
            operator = console.operator(HOSTILE, language)
            for path in paths:
                assert_harmless(operator.get(path), path)
            assert_forms_harmless(operator)
            assert_harmless(operator.get("/", host="evil.example"), "another host")
            # It is a part of a page.
            assert HOSTILE not in operator.get("/service-banner").text
    assert {path.name for path in TEMPLATES if path.parents[1].name == "console"} - rendered == set()


def test_a_console_compiles_its_templates_and_reads_its_texts_before_it_answers(console: RunningConsole) -> None:
    # They were compiled for an earlier console. To compile them again would take a second.
    asked_before = rendering.templates.cache_info().hits
    texts.translations.cache_clear()
    console.restart()
    assert rendering.templates.cache_info().hits == asked_before + 1
    assert texts.translations.cache_info().currsize == len(texts.LANGUAGES)


@cache
def parsed(path: Path) -> nodes.Template:
    return environment("counterfoil.console").parse(path.read_text("utf-8"))


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: f"{path.parents[1].name}/{path.stem}")
def test_a_template_imports_only_what_exists(path: Path) -> None:
    for imported in parsed(path).find_all(nodes.FromImport):
        source = parsed(path.parent / str(imported.template.value))  # type: ignore[attr-defined]
        defined = {macro.name for macro in source.find_all(nodes.Macro)}
        defined |= {name.name for found in source.find_all(nodes.Assign) for name in found.find_all(nodes.Name)}
        assert set(imported.names) - defined == set()
