"""In a real browser, an owner brings in what the till has exported, and sees that the totals are those of the file."""

import csv
import io
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook

from console.running_console import RunningConsole
from counterfoil import bootstrap
from counterfoil.console import imports
from counterfoil.program.clock import SystemClock
from importing import hostile_workbooks
from records import days
from waiting import until
from web import test_browser
from web.test_browser import SCHEMES, Visit, visiting

# If there is no browser, these tests are skipped.
pytestmark, browser = test_browser.pytestmark, test_browser.browser
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
SHOPS = tuple(f"Noodle {number:02}" for number in range(1, 13))
# No other order of day and month is possible.
FIRST_DAY, DAYS = datetime(2026, 10, 13, tzinfo=UTC), 3
ASKED = """Receipt No,Date,Branch,Payment,Subtotal,VAT,Tip,Grand
1001,2026-11-13 12:04,Riverside,Cash,100.00,7.00,5.00,107.00
1002,2026-11-13 13:04,Riverside,Card,200.00,14.00,0.00,214.00
1003,2026-11-13 14:10,Old Town,Cash,50.00,3.50,10.00,53.50
"""


@pytest.fixture
def console(tmp_path: Path) -> Iterator[RunningConsole]:
    with closing(RunningConsole(tmp_path / "console")) as running:
        # What the loader stamps is then visible.
        running.clock.advance((SystemClock().now_ms() - running.clock.now_ms()) / 1000 + 60)
        yield running


@pytest.fixture
def visit(browser: Any, console: RunningConsole) -> Iterator[Visit]:
    with signed_in(browser, console) as opened:
        yield opened


def signed_in(browser: Any, console: RunningConsole, width: int = 390, **options: Any) -> Any:
    return visiting(browser, f"{console.url}/sign-in#{console.token()}", width, **{"locale": "en", **options})


def loyverse() -> tuple[str, dict[str, Decimal]]:
    """Return receipts of twelve shops, some of them after midnight, and the net of each business day."""
    rows = list(csv.reader((EXAMPLES / "loyverse-receipts.csv").read_text("utf-8-sig").splitlines()))
    heading, example = rows[0], rows[1]
    made = [heading]
    nets: dict[str, Decimal] = defaultdict(Decimal)
    for number in range(12 * DAYS * 5):
        row = dict(zip(heading, example, strict=True))
        day, turn = number // 12 % DAYS, number // (12 * DAYS)
        # The last bill of a day is closed at half past midnight.
        closed = FIRST_DAY + timedelta(days=day, hours=12 + 3 * turn, minutes=30)
        amount = f"{100 + number}.50"
        row |= {"Date": f"{closed:%m/%d/%y} {closed:%I:%M %p}", "Receipt number": f"{number % 12}-{1000 + number}"}
        row |= {"Store": SHOPS[number % 12], "Gross sales": amount, "Discounts": "0.00", "Net sales": amount}
        row |= {"Total collected": amount, "Gross profit": amount, "Cost of goods": "0.00", "Status": "Closed"}
        made.append(list(row.values()))
        nets[f"{FIRST_DAY + timedelta(days=day):%Y-%m-%d}"] += Decimal(amount)
    text = io.StringIO()
    csv.writer(text).writerows(made)
    return text.getvalue(), nets


def bring(visit: Visit, console: RunningConsole, name: str, content: bytes) -> Any:
    """Choose a file on the page, send it, and wait until it has been read."""
    page = visit.page
    page.goto(f"{console.url}/imports")
    page.set_input_files("#files", {"name": name, "mimeType": "application/octet-stream", "buffer": content})
    page.locator(".drop button").click()
    page.wait_for_url("**/imports/*")
    wait_for(page, ".question, .facts-of-shops, .accept, #page .notice.bad")
    return page


def wait_for(page: Any, selector: str) -> None:
    """Wait until an import has been read. Without scripts, a person looks again."""

    def is_there() -> bool:
        if page.locator(selector).count() == 0 and page.locator("noscript a").count():
            page.reload()
        return bool(page.locator(selector).count())

    until(is_there, selector, 60)


def accepted(page: Any) -> None:
    page.locator(".accept button").click()
    page.wait_for_selector("#page .notice.good", timeout=30_000)


def test_twelve_shops_come_in_and_one_key_reads_the_right_totals_of_each_day(
    visit: Visit, console: RunningConsole
) -> None:
    text, nets = loyverse()
    page = bring(visit, console, "receipts.csv", text.encode())
    assert "12 new shops" in page.inner_text("main")
    assert "what was paid" in page.locator(".sheet").inner_text()
    page.locator("input[name='other:franchise']").fill("our-group")
    page.locator("input[name='other:closing']").fill("04:00")
    page.locator(".facts-of-shops .buttons button").click()
    wait_for(page, ".accept")
    assert bootstrap.store(console.settings).reads().loads(1) == []
    page.locator("#net").fill(f"{sum(nets.values()):,.2f}")
    page.locator(".check-net button").click()
    page.wait_for_selector(".check-net .notice.good")
    accepted(page)
    page.goto(f"{console.url}/keys/new")
    page.locator("#field-label").fill("ERP")
    page.locator("#field-scope").select_option("franchise:our-group")
    page.locator("main form[method=post] button").first.click()
    key = page.locator("#revealed").inner_text().strip()
    assert len(console.service.get("shops", key).json()["data"]) == len(SHOPS)
    found: dict[str, Decimal] = defaultdict(Decimal)
    for shop in console.service.get("shops", key).json()["data"]:
        span = days(f"{FIRST_DAY:%Y%m%d}", f"{FIRST_DAY + timedelta(days=DAYS):%Y%m%d}")
        for bill in console.service.get("transactions", key, shopId=shop["shopId"], **span).json()["data"]:
            found[bill["businessDate"]] += Decimal(str(bill["amounts"]["net"]))
    assert found == nets
    assert visit.said == []


def test_a_file_that_nobody_has_answered_for_asks_and_is_then_as_it_was_answered(
    visit: Visit, console: RunningConsole
) -> None:
    page = bring(visit, console, "sales.csv", ASKED.encode())
    assert page.locator(".accept").count() == 0
    page.locator(".role").nth(4).click()
    assert page.locator(".reasons").get_attribute("open") is not None
    assert "bills 1001 and 1003 have the same value" in page.inner_text("main")
    page.get_by_text("Subtotal + VAT + Tip", exact=True).click()
    page.locator(".question button").click()
    wait_for(page, ".facts-of-shops")
    page.locator(".facts-of-shops .buttons button").click()
    wait_for(page, ".accept")
    assert "389.50" in page.locator(".tiles").inner_text()
    accepted(page)
    address = page.url
    page.goto(f"{console.url}/loads")
    page.goto(address)
    assert "Loaded" in page.inner_text("main")


def test_a_workbook_comes_in_and_a_hostile_one_gets_a_sentence(visit: Visit, console: RunningConsole) -> None:
    book = Workbook()
    for row in csv.reader(loyverse()[0].splitlines()):
        book.active.append(row)
    content = io.BytesIO()
    book.save(content)
    page = bring(visit, console, "receipts.xlsx", content.getvalue())
    assert page.locator(".facts-of-shops").count() == 1
    for name, hostile in islice(hostile_workbooks.small(), 3):
        page = bring(visit, console, f"{name}.xlsx", hostile)
        assert page.locator(".accept").count() == 0, name
        page.goto(f"{console.url}/loads")
        assert page.locator("h1").inner_text() == "Loads"


def test_a_refused_file_gets_its_reason_beside_the_button(
    visit: Visit, console: RunningConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "MAX_IMPORTS", 0)
    page = visit.page
    page.goto(f"{console.url}/imports")
    page.set_input_files("#files", {"name": "sales.csv", "mimeType": "text/csv", "buffer": ASKED.encode()})
    page.locator(".drop button").click()
    page.locator(".chosen", has_text="Too many files wait to be accepted.").wait_for()
    assert page.locator(".drop button").is_enabled()


def test_without_scripts_a_file_comes_in_too(browser: Any, console: RunningConsole) -> None:
    alice = console.operator()
    with visiting(browser, console.url, java_script_enabled=False, locale="en") as opened:
        cookies = [{"name": name, "value": value, "url": console.url} for name, value in alice.client.cookies.items()]
        opened.page.context.add_cookies(cookies)
        page = bring(opened, console, "receipts.csv", loyverse()[0].encode())
        page.locator("input[name='other:franchise']").fill("g")
        page.locator(".facts-of-shops .buttons button").click()
        wait_for(page, ".accept")


@pytest.mark.parametrize("language", ["en", "th"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_pages_of_an_import_are_accessible_and_fit_a_phone(
    browser: Any, console: RunningConsole, scheme: str, language: str
) -> None:
    with signed_in(browser, console, color_scheme=scheme, locale=language) as visit:
        page = visit.page
        page.goto(f"{console.url}/imports")
        assert visit.violations() == []
        page = bring(visit, console, "sales.csv", ASKED.encode())
        page.locator(".role").first.click()
        assert_fits(visit)
        page.locator(".option input").first.check()
        page.locator(".question button").click()
        wait_for(page, ".facts-of-shops")
        assert_fits(visit)
        page.locator(".facts-of-shops .buttons button").click()
        wait_for(page, ".accept")
        assert_fits(visit)
        assert visit.said == []


def test_the_pages_of_files_that_fail_need_more_or_are_loaded_are_accessible_and_fit_a_phone(
    visit: Visit, console: RunningConsole
) -> None:
    page = bring(visit, console, "broken.xlsx", b"PK\x03\x04" + bytes(200))
    assert "Nothing of this file was loaded." in page.inner_text("main")
    assert_fits(visit)
    page = bring(visit, console, "customers.csv", (EXAMPLES / "loyverse-customers.csv").read_bytes())
    assert_fits(visit)
    page.locator("#said").fill("club")
    page.locator(".facts-of-shops .buttons button").click()
    wait_for(page, ".accept")
    accepted(page)
    assert_fits(visit)
    page.goto(f"{console.url}/imports")
    page.set_input_files("#files", [EXAMPLES / "bills.csv", EXAMPLES / "loyverse-customers.csv"])
    page.locator(".drop button").click()
    page.wait_for_url("**/imports/*")
    wait_for(page, "#kind-0, #page .notice.bad")
    assert_fits(visit)


def assert_fits(visit: Visit) -> None:
    assert visit.violations() == []
    for width in (320, 390, 820, 1440):
        visit.page.set_viewport_size({"width": width, "height": 900})
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
