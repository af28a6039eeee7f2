"""Pages stay well-formed and without scripts of their own, whatever the names in the store are."""

import re
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest

from console.running_console import RunningConsole
from counterfoil.console import rendering
from counterfoil.http.reference import page as reference_page
from records import base, bills, branch, member
from running_service import free_port
from web.strict_html import StrictPage

# Those of the console, and those of the reference page, which the API draws.
FOLDERS = (Path(rendering.__file__).parent, Path(reference_page.__file__).parent)
TEMPLATES = sorted(path for folder in FOLDERS for path in (folder / "templates").glob("*.html"))
HOSTILE = (
    """"'><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7 * 7 }}{% raw %} javascript:alert(1) &amp; ไทย"""
)
ADDRESSES = ("href", "src", "action", "formaction")
# What a template must not contain, because the Content-Security-Policy blocks it or because it is not escaped.
UNQUOTED = re.compile(r"""<[a-z][^<>]*\s[\w-]+=(?!"")""")
UNESCAPED = re.compile(r"\|\s*safe\b|autoescape|Markup")
FORBIDDEN = {
    "an inline style": re.compile(r"""\sstyle\s*="""),
    "an event handler": re.compile(r"""\son[a-z]+\s*="""),
    "an inline script": re.compile(r"<script(?![^>]*\ssrc=)"),
    "an address with a scheme": re.compile(r"""(?:href|src|action)="(?!https?:)[a-z]+:"""),
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
        ('<p onclick="go()">', "an event handler"),
        ("<script>go()</script>", "an inline script"),
        ('<a href="javascript:go()">', "an address with a scheme"),
    ],
)
def test_the_rules_for_templates_find_what_they_forbid(source: str, what: str) -> None:
    assert violations(source) == [what]


@pytest.mark.parametrize("language", ["en", "th"])
def test_every_page_shows_hostile_names_as_text(tmp_path: Path, language: str) -> None:
    with closing(RunningConsole(tmp_path, console_port=free_port())) as console:
        shop = branch(name=HOSTILE)
        console.service.load(shop, base(shop), member(shop), *bills(shop, 3))
        console.service.load(b'{"kind":"bill"}')
        key = console.service.key(shop=shop["id"], label=HOSTILE, personal_data=True)
        console.service.get("members", key, providerId=shop["providerId"])
        console.service.get("transactions", key, shopId="elsewhere")
        console.service.restart()
        operator = console.operator(HOSTILE, language)
        key_page = f"/keys/{key.split('_')[2]}"
        hostile = quote(HOSTILE)
        paths = ["/", "/keys", "/keys/new", "/shops", f"/shops/{shop['id']}", "/loads", "/loads/1", "/loads/2"]
        paths += ["/personal-data", "/store", "/devices", "/audit", "/reference/try/listShops", "/sign-in", "/imports"]
        paths += [f"{key_page}?tab={tab}" for tab in ("use", "copy", "errors", "audit", "change", "rotate", "revoke")]
        paths += [f"/requests?{name}={hostile}" for name in ("request", "key", "route", "error", "status", "since")]
        paths += [f"/find?q={hostile}", f"/shops?filter={hostile}&sort={hostile}", f"/audit?key={hostile}"]
        paths += [f"/requests/{hostile}", f"/today?range={hostile}&sort={hostile}"]
        for path in paths:
            answer = operator.get(path)
            page = StrictPage(answer.content)
            # Some of these addresses lead nowhere, but none of them fails.
            assert (path, answer.status_code < 500, page.problems) == (path, True, [])
            assert b"alert(1)&gt;49{" not in answer.content, path
            assert [script for script in page.named("script") if set(script) != {"src", "defer"}] == [], path
            assert [image for image in page.named("img") if not str(image["src"]).startswith("data:image/")] == [], path
            for _, attributes in page.elements:
                addresses = [attributes[name] or "" for name in ADDRESSES if name in attributes]
                assert [one for one in addresses if re.match(r"(?!https?:|data:image/)[a-z+]+:", one.strip())] == []
