"""An owner with twelve shops follows the README: one key for all of them, and the right total of each business day."""

import csv
import re
import shlex
from collections import defaultdict
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from counterfoil.program.clock import SystemClock
from counterfoil.program.main import program
from running_service import RunningService

ROOT = Path(__file__).parents[2]
OWN_BILLS = re.compile(r"^## [^\n]*Your own bills\n.*?^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLACES = ("Ari", "Bearing", "Chatuchak", "Dusit", "Ekkamai", "Huai", "Lat", "Nana", "On", "Phra", "Sathon", "Thon")
SHOPS = [f"Noodle House {place}" for place in PLACES]
FIRST, DAYS = date(2026, 11, 9), 4
# Times of sales, with how many days after the business day they are.
TIMES = [(11, 30, 0), (18, 5, 0), (23, 59, 0), (0, 0, 1), (1, 20, 1), (2, 40, 1)]
RECEIPTS = """Date|Receipt number|Receipt type|Gross sales|Discounts|Net sales|Taxes|Total collected|Payment type
Dining option|POS|Store|Cashier name|Customer name|Status"""
ITEMS = """Date|Receipt number|Receipt type|Category|SKU|Item|Variant|Modifiers applied|Quantity|Gross sales|Discounts
Net sales|Cost of goods|Gross profit|Taxes|Dining option|POS|Store|Cashier name|Customer name|Comment|Status"""

Totals = dict[tuple[str, str], Decimal]


def commands(document: str) -> list[str]:
    """Return the commands of the section about one's own bills, without what they print."""
    found = OWN_BILLS.search((ROOT / document).read_text("utf-8"))
    assert found, document
    return [line.removeprefix("$ ") for line in found[1].splitlines() if line.startswith("$ ")]


def headings(text: str) -> list[str]:
    return text.replace("\n", "|").split("|")


def write_exports(folder: Path) -> Totals:
    """Write invented exports of Loyverse, and return the net of each shop and business day."""
    truth: Totals = defaultdict(Decimal)
    with (folder / "receipts.csv").open("w") as receipts, (folder / "receipts-by-item.csv").open("w") as items:
        sheets = csv.DictWriter(receipts, headings(RECEIPTS)), csv.DictWriter(items, headings(ITEMS))
        for sheet in sheets:
            sheet.writeheader()
        for number, shop in enumerate(SHOPS, 1):
            for day in (FIRST + timedelta(days=count) for count in range(DAYS)):
                for place, (hour, minute, later) in enumerate(TIMES):
                    net = Decimal(100 * number + 10 * place + day.day)
                    kind, status = "Sale", "Closed"
                    if place == 1 and number == 3:
                        status = "Cancelled"
                    if place == 4 and number == 5:
                        kind, net = "Refund", -net
                    at = datetime.combine(day + timedelta(days=later), time(hour, minute))
                    _write(sheets, at, f"{number}-{(day - FIRST).days * 10 + place:04}", shop, kind, status, net)
                    truth[shop, day.isoformat()] += Decimal(0) if status == "Cancelled" else net
    return dict(truth)


def _write(sheets: tuple[Any, Any], at: datetime, number: str, shop: str, kind: str, status: str, net: Decimal) -> None:
    written = f"{at.month}/{at.day}/{at:%y} {at.hour % 12 or 12}:{at:%M} {at:%p}"
    shared = {
        "Date": written,
        "Receipt number": number,
        "Receipt type": kind,
        "Gross sales": abs(net),
        "Discounts": "0.00",
    }
    shared |= {"Net sales": net, "Taxes": "0.00", "Dining option": "Dine in", "POS": f"POS {shop}", "Store": shop}
    shared |= {"Cashier name": "Mali", "Status": status}
    sheets[0].writerow(shared | {"Total collected": net, "Payment type": "Cash"})
    sheets[1].writerow(shared | {"Item": "Khao soi", "Quantity": 1})


@pytest.fixture
def _new_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COUNTERFOIL_STORE", "COUNTERFOIL_SECRET", "COUNTERFOIL_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def run(command: str) -> str:
    _, *words = shlex.split(command)
    result = CliRunner().invoke(program, words)
    assert result.exit_code == 0, f"{command}\n{result.output}"
    return result.output


@pytest.mark.usefixtures("_new_machine")
def test_the_commands_of_the_readme_give_one_key_for_all_shops_and_the_net_of_each_business_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = write_exports(tmp_path)
    load, issue, serve, export, pull, query = commands("README.md")
    loaded = run(load)
    assert "without a business day" not in loaded
    # The command says how to go on.
    assert issue.partition(" --label")[0] in loaded
    key = next(line for line in run(issue).splitlines() if line.startswith("cf_live_"))
    assert (serve, export) == ("counterfoil serve", "export COUNTERFOIL_KEY=cf_live_…")
    service = RunningService(tmp_path, store=str(tmp_path / "counterfoil-data"), secret="", clock=SystemClock())
    try:
        assert sorted(shop["shopName"] for shop in service.data("shops", key)) == SHOPS
        assert totals_of_api(service, key) == truth
        monkeypatch.setenv("COUNTERFOIL_KEY", key)
        assert "without a business day" not in run(pull.replace("http://127.0.0.1:8000/ext/v1", service.url))
    finally:
        service.close()
    found = re.search(r'connect\("(\S+)"\)\.sql\("(.*?)"\)', query)
    assert found
    with duckdb.connect(found[1]) as copy:
        names = dict(copy.sql("SELECT shop_id, shop_name FROM shops").fetchall())
        sales = copy.sql(found[2]).fetchall()
    assert {(names[shop], day.isoformat()): net for shop, day, net in sales} == truth


def totals_of_api(service: RunningService, key: str) -> Totals:
    totals: Totals = defaultdict(Decimal)
    until = FIRST + timedelta(days=DAYS)
    for shop in service.data("shops", key):
        of_shop = {"shopId": shop["shopId"], "from": f"{FIRST:%Y%m%d}", "to": f"{until:%Y%m%d}"}
        for page in service.pages("transactions", key, **of_shop):
            for bill in page["data"]:
                net = Decimal(str(bill["amounts"]["net"])) if bill["status"] == "completed" else Decimal(0)
                totals[shop["shopName"], bill["businessDate"]] += net
    return dict(totals)


def test_the_quickstart_has_the_commands_of_the_readme() -> None:
    assert commands("docs/quickstart.md") == commands("README.md")


@pytest.mark.usefixtures("_new_machine")
def test_without_them_each_command_says_what_is_missing_and_what_repairs_it(tmp_path: Path) -> None:
    truth = write_exports(tmp_path)
    loaded = run("counterfoil import receipts.csv receipts-by-item.csv --with-shops --load")
    assert "The 12 new shops belong to no franchise, so no key can read more than one of them." in loaded
    assert f"{len(truth) * len(TIMES)} bills without a business day" in loaded
    [closing] = re.findall(r"`(counterfoil shops set --missing --closing-time \S+)`", loaded)
    assert closing.endswith(" 04:00")
    [franchise] = re.findall(r"counterfoil shops set --missing --franchise NAME", loaded)
    run(f"{closing} --yes")
    run(f"{franchise.replace('NAME', 'noodle-house')} --yes")
    key = next(
        line for line in run("counterfoil keys issue --franchise noodle-house").splitlines() if line[:8] == "cf_live_"
    )
    service = RunningService(tmp_path, store=str(tmp_path / "counterfoil-data"), secret="", clock=SystemClock())
    try:
        assert totals_of_api(service, key) == truth
    finally:
        service.close()
