"""In a real browser, an operator signs in, issues and revokes keys, and finds requests and silent shops.

The browser is Debian's Chromium. If Chromium or playwright is missing, these tests are skipped with a message.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli.command import PYTHON, Command
from client.scripted_service import Answer, scripted_service
from console import test_process
from console.running_console import PAGES
from running_service import free_port
from waiting import until
from web import test_browser
from web.test_browser import SCHEMES, Visit, visiting

# If there is no browser, these tests are skipped too.
pytestmark, browser, printed = test_browser.pytestmark, test_browser.browser, test_browser.demo
store = test_process.store
LANGUAGES = ("en", "th")
WIDTHS = (320, 390, 768, 900, 1100, 1280, 1440)
# Returns whether any table extends beyond the content column of the page.
_WIDE_TABLE = """() => {
  const main = document.querySelector("main");
  const right = main.getBoundingClientRect().right - parseFloat(getComputedStyle(main).paddingRight);
  return [...main.querySelectorAll("table")].some(one => one.getBoundingClientRect().right > right + 1);
}"""


class RunningDemo:
    """A demo with its console. `link` makes a new sign-in link."""

    def __init__(self, printed: dict[str, Any]) -> None:
        self._printed = printed
        self.console = printed["console"].partition("/sign-in#")[0]
        self.keys = {key["purpose"]: key for key in printed["keys"]}

    def link(self) -> str:
        port = self.console.rpartition(":")[2]
        return str(Command(self._printed["store"]).json("console", "link", "--console-port", port)["console"])

    def call(self, purpose: str, path: str = "/shops") -> httpx.Response:
        headers = {"authorization": f"Bearer {self.keys[purpose]['key']}"}
        return httpx.get(self._printed["baseUrl"] + path, headers=headers, timeout=30)


@pytest.fixture(scope="module")
def demo(printed: dict[str, Any]) -> RunningDemo:
    return RunningDemo(printed)


@contextmanager
def signed_in(browser: Any, demo: RunningDemo, width: int = 1440, **options: Any) -> Iterator[Visit]:
    """Yield a browser in which an operator has signed in by opening a link."""
    with visiting(browser, demo.link(), width, **{"locale": "en", **options}) as opened:
        opened.page.wait_for_url(f"{demo.console}/")
        yield opened


@pytest.fixture
def visit(browser: Any, demo: RunningDemo) -> Iterator[Visit]:
    with signed_in(browser, demo) as opened:
        yield opened


def go(visit: Visit, demo: RunningDemo, path: str) -> Any:
    visit.page.goto(demo.console + path)
    return visit.page


# In pixels: about seven screens of a phone.
LONGEST_PAGE = 6_000


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_page_is_accessible_short_and_stays_on_its_origin(
    browser: Any, demo: RunningDemo, scheme: str, language: str
) -> None:
    demo.call("franchise", "/transactions/none")
    width = 390 if scheme == "dark" else 1440
    with signed_in(browser, demo, width, color_scheme=scheme, locale=language) as visit:
        one_key = f"/keys/{demo.keys['franchise']['keyId']}"
        newest_load = go(visit, demo, "/loads").locator("td a").first.get_attribute("href")
        of_shops = _pages_of_a_shop(visit, demo)
        others = ("/reference", "/reference/try/listTransactions", one_key, newest_load, f"{newest_load}/undo")
        of_imports = ("/imports", "/loads/items/1")
        for path in (*PAGES, *others, *of_shops, *of_imports):
            page = go(visit, demo, path)
            if path != "/reference":
                assert page.locator("html").get_attribute("lang") == language
            height = page.evaluate("document.documentElement.scrollHeight")
            assert height < LONGEST_PAGE or (path == "/reference" and width > 390), path
            for details in page.locator("main details:not([name])").all():
                details.evaluate("one => one.open = true")
            assert (path, visit.violations()) == (path, [])
            assert (path, _widths_that_scroll(page)) == (path, [])
            page.set_viewport_size({"width": width, "height": 900})
        assert visit.said == []
        assert [address for address in visit.asked if not address.startswith((f"{demo.console}/", "data:"))] == []


def _pages_of_a_shop(visit: Visit, demo: RunningDemo) -> list[str]:
    """Return the addresses of a shop, of its latest day with bills, of a bill, and of a change of its facts."""
    shop = f"/shops/{demo.keys['franchise']['shopId']}"
    read = "async () => (await fetch(location.pathname + '.json')).json()"
    days = go(visit, demo, shop).evaluate(read)["days"]
    day = f"{shop}/days/{next(found['day'] for found in days if found['bills'])}"
    bill_id = go(visit, demo, day).evaluate(read)["bills"][0]["billId"]
    bill = f"/bills/{bill_id}?shop={demo.keys['franchise']['shopId']}"
    return [shop, day, bill, f"{shop}/settings?closing=05:00"]


def _widths_that_scroll(page: Any) -> list[int]:
    """Return the window widths at which the page must be scrolled sideways, or a table is wider than its column."""
    found = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        is_console = page.locator("main#content").count() > 0
        is_wide = page.evaluate("document.documentElement.scrollWidth") > width
        if is_wide or (is_console and page.evaluate(_WIDE_TABLE)):
            found.append(width)
    return found


def _has_letters(language: str) -> bool:
    """Tell whether a font has the language's letters; boxes instead of letters are wider."""
    fonts = shutil.which("fc-list")
    return bool(fonts and subprocess.run([fonts, f":lang={language}"], capture_output=True, check=True).stdout)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_header_leaves_most_of_a_phone_to_the_page(browser: Any, demo: RunningDemo, language: str) -> None:
    if not _has_letters(language):
        pytest.skip(f"No font has the letters of {language!r}.")
    with signed_in(browser, demo, 390, locale=language) as visit:
        page = go(visit, demo, "/shops")
        assert page.locator("main").bounding_box()["y"] < 110
        address = "nav details a[href='/loads']"
        assert not page.locator(address).is_visible()
        page.locator("nav summary").click()
        page.locator(address).click()
        page.wait_for_url(f"{demo.console}/loads")


def test_the_sign_in_page_is_accessible_and_a_used_link_is_refused(browser: Any, demo: RunningDemo) -> None:
    link = demo.link()
    with visiting(browser, link, locale="en") as visit:
        visit.page.wait_for_url(f"{demo.console}/")
    with visiting(browser, link, locale="en") as visit:
        visit.page.locator(".notice.bad").wait_for()
        assert "This link is not valid" in visit.page.locator("main").text_content()
        assert visit.violations() == []
        assert "#" not in visit.page.url


def test_following_shows_new_requests_an_outage_of_the_console_and_the_end_of_the_session(
    demo: RunningDemo, visit: Visit
) -> None:
    page = go(visit, demo, "/requests")
    page.get_by_role("button", name="Follow live").click()
    request_id = demo.call("franchise").headers["x-request-id"]
    page.locator("tbody tr", has_text=request_id).wait_for(timeout=15_000)
    assert visit.said == []
    page.context.set_offline(True)
    page.get_by_text("The console does not respond.").wait_for(timeout=15_000)
    page.context.set_offline(False)
    page.get_by_text("New requests appear at the top.").wait_for(timeout=15_000)
    page.get_by_role("button", name="Stop following").click()
    page.get_by_role("button", name="Follow live").click()
    page.context.clear_cookies()
    page.wait_for_url(f"{demo.console}/sign-in", timeout=15_000)


def test_five_questions_are_answered_without_scrolling(demo: RunningDemo, visit: Visit) -> None:
    """The questions are about the busiest keys, silent shops, one request, disclosures, and the freshness of a copy."""
    request_id = demo.call("franchise").headers["x-request-id"]

    def is_recorded() -> bool:
        return bool(go(visit, demo, f"/requests?request={request_id}").locator(".under", has_text=request_id).count())

    until(is_recorded, "the request is recorded")
    answers = {
        "/keys": "tbody tr",
        "/shops": "main .notice",
        f"/requests?request={request_id}": "section:has-text('Status') dl",
        "/personal-data": "section:has-text('Who received personal data') tbody tr",
        f"/keys/{demo.keys['franchise']['keyId']}": ".tile:has-text('Freshness of the copy')",
    }
    for path, answer in answers.items():
        box = go(visit, demo, path).locator(answer).first.bounding_box()
        assert box, path
        assert (path, box["y"] + box["height"] < 900) == (path, True)


def test_a_bar_explains_itself_and_leads_to_its_requests(demo: RunningDemo, visit: Visit) -> None:
    page = go(visit, demo, f"/keys/{demo.keys['franchise']['keyId']}?range=7d")
    bars, tip = page.locator("figure").first.locator(".slot"), page.locator(".tip")
    assert not tip.is_visible()
    bars.nth(2).hover()
    assert tip.inner_text() == bars.nth(2).get_attribute("aria-label")
    page.locator("h1").hover()
    assert not tip.is_visible()
    bars.nth(6).focus()
    page.keyboard.press("ArrowLeft")
    assert tip.inner_text() == bars.nth(5).get_attribute("aria-label")
    assert visit.violations() == []
    page.keyboard.press("Enter")
    page.wait_for_url("**/requests?key=*&since=*&until=*")
    assert visit.said == []


def test_a_tap_shows_the_text_of_a_bar_and_a_second_one_follows_it(browser: Any, demo: RunningDemo) -> None:
    with signed_in(browser, demo, 390, has_touch=True) as visit:
        bar = visit.page.locator("figure").first.locator(".slot").nth(3)
        bar.tap()
        assert visit.page.locator(".tip").inner_text() == bar.get_attribute("aria-label")
        assert visit.page.url == f"{demo.console}/"
        bar.tap()
        visit.page.wait_for_url("**/requests?since=*&until=*")


def test_the_search_of_the_reference_shows_only_what_contains_all_words(demo: RunningDemo, visit: Visit) -> None:
    page = go(visit, demo, "/reference")
    parts, links = page.locator("main article:visible"), page.locator("#contents li:visible")
    all_parts, all_links = parts.count(), links.count()
    page.get_by_label("Search").fill("lookup Messaging")
    assert page.locator("#lookupMember").is_visible()
    assert page.locator("#listShops").is_hidden()
    assert 0 < parts.count() < all_parts
    assert 0 < links.count() < all_links
    page.get_by_label("Search").fill("no part contains this")
    assert (parts.count(), page.locator("#contents h2:visible").count()) == (0, 0)
    assert page.locator("#search-count").inner_text() == "Nothing found for no part contains this"
    page.get_by_label("Search").fill("")
    assert (parts.count(), links.count()) == (all_parts, all_links)


def test_the_search_of_the_reference_opens_and_marks_what_it_finds_on_a_phone(browser: Any, demo: RunningDemo) -> None:
    with signed_in(browser, demo, 390, has_touch=True) as visit:
        page = go(visit, demo, "/reference")
        row = page.locator("[id='Coupon.status']")
        assert not row.is_visible()
        page.get_by_label("Search").fill("expiry")
        assert row.is_visible()
        assert page.evaluate("CSS.highlights.get('found').size") > 0
        page.keyboard.press("Enter")
        in_view = "() => [...CSS.highlights.get('place')][0].getBoundingClientRect().top"
        assert 0 < page.evaluate(in_view) < 900
        # The search and the contents are still there.
        assert page.get_by_label("Search").bounding_box()["y"] < 100
        page.get_by_label("Search").fill("")
        assert not row.is_visible()
        page.get_by_text("Contents", exact=True).tap()
        page.locator("#contents").get_by_role("link", name="Coupon").tap()
        assert row.is_visible()
        assert not page.locator("#contents").get_by_role("link", name="Coupon").is_visible()
        assert 0 <= page.locator("#Coupon").bounding_box()["y"] < 900


def test_the_five_questions_of_the_guide_are_answered_by_tapping_on_a_phone(browser: Any, demo: RunningDemo) -> None:
    request_id = demo.call("franchise", "/transactions/none").headers["x-request-id"]
    with signed_in(browser, demo, 390, has_touch=True) as visit:
        page = visit.page

        def open_page(name: str) -> None:
            page.locator("nav .menu summary").tap()
            page.locator("nav .menu").get_by_role("link", name=name).tap()

        # Is all well?
        assert page.locator("main .notice strong").first.bounding_box()["y"] < 400
        # What was rejected, and why?
        page.get_by_role("link", name="Lines rejected").tap()
        page.wait_for_url("**/loads/*")
        assert "not_json" in page.locator("tbody tr").first.inner_text()
        # Which shop is silent? Of so few bills, none is.
        open_page("Shops")
        page.wait_for_url("**/shops")
        assert page.locator("main .notice:visible").first.bounding_box()["y"] < 900
        # Is this key's copy current?
        open_page("Keys")
        page.locator("tbody").get_by_role("link", name="Head office ERP").tap()
        page.locator(".tabs").get_by_role("link", name="Copy").tap()
        page.wait_for_url("**?tab=copy*")
        assert page.locator(".summary").inner_text() == "3 of 5 shops up to date"
        assert page.locator(".summary").bounding_box()["y"] < 900

        # What happened to this request?
        def is_found() -> bool:
            page.locator("nav .find input").fill(request_id)
            with page.expect_navigation():
                page.keyboard.press("Enter")
            return bool(page.locator("main dl").count())

        until(is_found, "the request is recorded")
        assert "not_found" in page.locator("main dl").inner_text()


@pytest.mark.parametrize("text", ["081-234-5678", "+66 81 234 5678", "somebody@example.test", "m1_token"])
def test_find_puts_nothing_that_names_a_customer_into_an_address(demo: RunningDemo, visit: Visit, text: str) -> None:
    page = go(visit, demo, "/shops")
    addresses: list[str] = []
    page.on("request", lambda request: addresses.append(request.url))
    page.locator("#find").fill(text)
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert page.locator("#customer").count()
    assert addresses[0] == f"{demo.console}/find/customer"
    assert not [address for address in addresses if "?" in address]


def test_a_list_is_filtered_while_the_operator_types(demo: RunningDemo, visit: Visit) -> None:
    page = go(visit, demo, "/shops")
    rows = page.locator("tbody tr:visible")
    field, status = page.locator(".filter input"), page.locator(".filter [role=status]")
    shops = rows.count()
    field.fill("central station")
    assert 0 < rows.count() < shops
    field.fill("zzz")
    assert rows.count() == 0
    assert status.inner_text() != ""
    field.fill("")
    assert (rows.count(), status.inner_text()) == (shops, "")


@pytest.mark.parametrize("width", [390, 768, 820, 1024, 1440])
def test_every_shop_is_named_by_its_branch_first_and_no_branch_is_cut(
    browser: Any, demo: RunningDemo, width: int
) -> None:
    with signed_in(browser, demo, width) as visit:
        rows = go(visit, demo, "/shops").locator("tbody th")
        assert rows.count() > 10
        for row in rows.all():
            branch, brand = row.locator(".label"), row.locator("small")
            name = branch.get_attribute("title")
            assert f"{brand.inner_text()} · {branch.inner_text()}" == name
            assert branch.bounding_box()["y"] < brand.bounding_box()["y"]
            for part in (branch, brand):
                assert part.evaluate("part => part.scrollHeight <= part.clientHeight + 1"), name
                assert part.evaluate("part => part.scrollWidth <= part.clientWidth + 1"), name


def test_a_long_label_keeps_every_column_on_the_page(demo: RunningDemo, visit: Visit) -> None:
    page = go(visit, demo, "/keys/new")
    page.locator("#field-label").fill("Integration " + "x" * 180)
    page.locator("#field-scope").select_option(index=1)
    page.get_by_role("button", name="Issue the key").click()
    go(visit, demo, "/keys")
    assert _widths_that_scroll(page) == []


def test_an_operator_tries_a_request_from_the_reference(demo: RunningDemo, visit: Visit) -> None:
    page = go(visit, demo, "/reference")
    page.locator("#listShops").get_by_role("link", name="Try it").click()
    page.locator("#field-scope").select_option(index=1)
    page.get_by_role("button", name="Send").click()
    assert page.locator("#answer .badge").inner_text() == "200"
    assert '"ok": true' in page.locator("#answer pre").first.inner_text()
    assert page.evaluate("document.documentElement.scrollHeight") < LONGEST_PAGE
    assert visit.violations() == []


def test_the_keyboard_alone_reaches_and_sends_a_form(demo: RunningDemo, visit: Visit) -> None:
    page = go(visit, demo, "/requests")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Export"
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('href')") == "#search":
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**#search")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "request"
    page.keyboard.type("no-such-request")
    page.keyboard.press("Enter")
    page.wait_for_url("**/requests?request=no-such-request*")
    assert page.locator(".empty").text_content() == "No request matches."


def test_everything_but_live_parts_works_without_scripts(browser: Any, demo: RunningDemo) -> None:
    with visiting(browser, f"{demo.console}/sign-in", java_script_enabled=False, locale="en") as visit:
        visit.page.get_by_label("Sign-in link").fill(demo.link())
        visit.page.get_by_role("button", name="Sign in").click()
        visit.page.wait_for_url(f"{demo.console}/")
        page = go(visit, demo, "/requests")
        assert page.locator("tbody tr").count() > 10
        assert not page.locator("#follow").is_visible()
        page.get_by_role("link", name="Older").click()
        assert "before=" in page.url
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url(f"{demo.console}/sign-in?out=1")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "other.localhost"])
def test_a_page_on_another_port_of_this_machine_gets_no_cookie_and_no_data(
    demo: RunningDemo, visit: Visit, host: str
) -> None:
    (cookie,) = visit.page.context.cookies()
    assert demo.console.startswith(f"http://{cookie['domain']}:")
    received: list[str] = []

    def answer(_: str, headers: Mapping[str, str]) -> Answer:
        received.extend(map(str.lower, headers))
        return 200, {"content-type": "text/html"}, b"<title>A page of somebody else</title>"

    with scripted_service(answer) as other_user:
        page = visit.page.context.new_page()
        page.goto(other_user.replace("127.0.0.1", host))
        assert page.title() == "A page of somebody else"
        assert "host" in received
        assert "cookie" not in received
        for address in (demo.console, f"http://{host}:{demo.console.rpartition(':')[2]}"):
            script = f"fetch('{address}/keys.json', {{credentials: 'include'}}).then(() => 'read', () => 'refused')"
            assert page.evaluate(script) == "refused"
    visit.page.goto(f"{demo.console}/keys")
    assert visit.page.get_by_text("Signed in as").count()


@contextmanager
def service(store: Path, admin_port: int) -> Iterator[None]:
    """Run a service in processes of its own, and kill them with SIGKILL, so that they cannot clean up."""
    ports = ["--port", str(free_port()), "--admin-port", str(admin_port)]
    words = [*PYTHON, "serve", "--store", str(store), *ports, "--workers", "1"]

    def is_ready() -> bool:
        with suppress(httpx.TransportError):
            return httpx.get(f"http://127.0.0.1:{admin_port}/ready", timeout=5).status_code == 200
        return False

    with subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            until(is_ready, "the service is ready")
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_pages_say_that_the_service_or_the_console_was_killed_and_that_the_service_runs_again(
    browser: Any, store: Path
) -> None:
    # Without any key, nobody would miss the service.
    Command(store)("keys", "issue", "--shop", "sh_1")
    port, admin_port = free_port(), free_port()
    with (
        test_process.console(store, port, COUNTERFOIL_ADMIN_PORT=str(admin_port)) as console,
        visiting(browser, "about:blank", locale="en") as visit,
    ):
        page = visit.page
        with service(store, admin_port):
            page.goto(test_process.printed_link(console))
            page.wait_for_url("**/")
            address = page.url.removesuffix("/")
            page.goto(f"{address}/keys")
            banner = page.locator("#service")
            assert banner.text_content() == ""
        # The open page reports the outage without being reloaded.
        page.get_by_text("The API is not available.").wait_for(timeout=60_000)
        assert "No service responds at" in banner.text_content()
        assert "Run counterfoil serve, or check admin_host and admin_port." in banner.text_content()
        assert visit.violations() == []
        page.goto(f"{address}/")
        assert "Something is wrong:" in page.locator(".notice.bad").text_content()
        page.goto(f"{address}/shops")
        assert "No service responds at" in banner.text_content()
        with service(store, admin_port):
            page.get_by_text("The service is running again.").wait_for(timeout=60_000)
            page.goto(f"{address}/shops")
            assert banner.text_content() == ""
            assert page.locator("tbody tr").count() == 2
            console.kill()
            page.get_by_text("The console cannot be reached.").wait_for(timeout=60_000)
