"""In a real browser, the reference page is accessible, works without scripts, and contacts no other host.

The browser is Debian's Chromium. If Chromium or playwright is missing, these tests are skipped with a message.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from cli.command import PYTHON
from counterfoil.http.reference import example_base_url, render

playwright = pytest.importorskip(
    "playwright.sync_api",
    reason="playwright is not installed, so no page was opened in a browser (`make test` installs it)",
)
CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.skipif(
        CHROMIUM is None,
        reason="chromium is not on the PATH, so no page was opened in a browser (Debian: apt-get install chromium)",
    ),
    pytest.mark.browser,
]
# The network options stop Chromium from contacting Google by itself.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
WIDTHS = (375, 768, 1440)
SCHEMES = ("light", "dark")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


class Visit:
    """An open page, with its console messages and the URLs that it has requested."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))

    def violations(self) -> list[str]:
        """Return the accessibility violations that axe-core finds in the current state of the page."""
        source = (resources.files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
        self.page.evaluate(source)
        # Without `resultTypes`, axe-core also collects passed checks, which takes three times as long.
        found = self.page.evaluate("rules => axe.run({runOnly: rules, resultTypes: ['violations']})", RULES)
        return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found["violations"]]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Run the demo; yield the JSON that it prints when it is ready."""
    scratch = tmp_path_factory.mktemp("demo")
    words = [*PYTHON, "demo", "--port", "0", "--bills", "500", "--json"]
    environment = os.environ | {"TMPDIR": str(scratch)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as process:
        assert process.stdout
        yield json.loads(process.stdout.readline())
        process.terminate()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("file") / "reference.html"
    written.write_bytes(render("html", "/ext", example_base_url("/ext")))
    return written


@contextmanager
def visiting(browser: Any, address: str, width: int = 1440, **options: Any) -> Iterator[Visit]:
    context = browser.new_context(viewport={"width": width, "height": 900}, **options)
    try:
        visit = Visit(context.new_page())
        visit.page.goto(address)
        yield visit
    finally:
        context.close()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_demo_page_is_accessible_and_stays_on_its_origin(
    browser: Any, demo: dict[str, Any], width: int, scheme: str
) -> None:
    with visiting(browser, demo["reference"], width, color_scheme=scheme) as visit:
        assert visit.violations() == []
        assert visit.said == []
        origin = demo["baseUrl"].removesuffix("/ext/v1")
        assert [address for address in visit.asked if not address.startswith((f"{origin}/", "data:"))] == []


@pytest.mark.parametrize(("width", "scheme"), [(375, "light"), (1440, "dark")])
def test_the_file_is_accessible_and_makes_no_requests(browser: Any, file: Path, width: int, scheme: str) -> None:
    with visiting(browser, file.as_uri(), width, color_scheme=scheme) as visit:
        assert visit.violations() == []
        assert visit.said == []
        assert [address for address in visit.asked if not address.startswith("data:")] == [file.as_uri()]


def test_the_style_sheet_is_applied_in_both_colour_schemes(browser: Any, file: Path) -> None:
    colours = []
    for scheme in SCHEMES:
        with visiting(browser, file.as_uri(), color_scheme=scheme) as visit:
            colours.append(visit.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(255, 255, 255)", "rgb(14, 19, 24)"]


def test_the_navigation_is_beside_the_text_only_on_wide_screens_and_leaves_half_of_the_first_screen(
    browser: Any, file: Path
) -> None:
    for width, is_beside in ((375, False), (1440, True)):
        with visiting(browser, file.as_uri(), width) as visit:
            navigation, main = (visit.page.locator(name).bounding_box() for name in ("nav", "main"))
            assert (navigation["x"] + navigation["width"] <= main["x"]) is is_beside
            assert main["y"] < 900 / 2


def test_the_first_tab_stop_skips_to_the_content(browser: Any, file: Path) -> None:
    with visiting(browser, file.as_uri()) as visit:
        visit.page.keyboard.press("Tab")
        assert visit.page.evaluate("document.activeElement.textContent") == "Skip to the content"
        visit.page.keyboard.press("Enter")
        assert visit.page.evaluate("document.activeElement.id") == "content"


def test_a_link_to_a_field_leads_to_its_row(browser: Any, file: Path) -> None:
    with visiting(browser, f"{file.as_uri()}#Bill.updatedAt") as visit:
        row = visit.page.locator("[id='Bill.updatedAt']")
        assert 0 <= row.bounding_box()["y"] < 900


def test_opening_another_language_closes_the_first(browser: Any, file: Path) -> None:
    with visiting(browser, file.as_uri()) as visit:
        visit.page.locator("#getUsage summary", has_text="httpx").click()
        opened = visit.page.locator("#getUsage .tabs details[open] summary")
        assert opened.all_text_contents() == ["httpx"]


def test_the_printed_page_shows_every_sample_and_no_navigation(browser: Any, file: Path) -> None:
    with visiting(browser, file.as_uri()) as visit:
        visit.page.emulate_media(media="print")
        assert not visit.page.locator("nav").is_visible()
        assert all(sample.is_visible() for sample in visit.page.locator("#getUsage .tabs pre").all())


def test_the_demo_page_is_complete_without_a_script(browser: Any, demo: dict[str, Any]) -> None:
    with visiting(browser, demo["reference"], java_script_enabled=False) as visit:
        assert visit.page.locator("#listTransactions h3").is_visible()


def test_a_sample_is_copied_to_the_clipboard(browser: Any, demo: dict[str, Any]) -> None:
    with visiting(browser, demo["reference"], permissions=["clipboard-read", "clipboard-write"]) as visit:
        shown = visit.page.locator("#getUsage .samples .copyable").first
        shown.locator("button").click()
        shown.get_by_text("Copied").wait_for()
        assert visit.page.evaluate("navigator.clipboard.readText()") == shown.locator("pre").text_content()


def test_a_page_on_another_origin_gets_nothing_from_the_demo(browser: Any, demo: dict[str, Any], file: Path) -> None:
    with visiting(browser, file.as_uri(), bypass_csp=True) as visit:
        asked = f"fetch('{demo['baseUrl']}/openapi.json').then(() => 'read', () => 'refused')"
        assert visit.page.evaluate(asked) == "refused"
