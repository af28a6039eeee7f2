"""Tests for the control totals that imports and loads print, keep and compare with the POS's own figure."""

from pathlib import Path

import pytest

from cli.command import SHOPS, Command, on_terminal

MAPPING = """
[dates]
order = "ymd"
[shop]
id = "riverside"
closingTime = "04:00"
[bill]
id = "Bill"
closedAt = "Date"
amounts.net = "Total"
amounts.tip = "Tip"
void = { column = "Void", values = { yes = true, no = false } }
[line]
name = "Item"
total = "Price"
"""
# The third bill was closed before the shop's closing time, so it belongs to the day before.
EXPORT = """Bill,Date,Total,Tip,Void,Item,Price
1,2026-11-14 18:05,"1,240.50",40.50,no,Soup,1200.00
2,2026-11-14 19:05,65.00,0,yes,Latte,65.00
3,2026-11-15 01:05,-65.00,0,no,Latte,-65.00
4,2026-11-15 12:00,80.00,0,no,Tea,75.00
"""
DAYS = [("2026-11-14", 3, 1, 1, "1175.50", "40.50"), ("2026-11-15", 1, 0, 0, "80.00", "0.00")]
IMPORT = ("import", "--mapping", "mapping.toml", "export.csv")


@pytest.fixture(autouse=True)
def _folder_with_an_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mapping.toml").write_text(MAPPING, "utf-8")
    Path("export.csv").write_text(EXPORT, "utf-8")


def export(*rows: str) -> None:
    Path("export.csv").write_text("\n".join([EXPORT.splitlines()[0], *rows]), "utf-8")


def test_a_check_a_file_a_load_and_the_kept_load_have_the_same_totals(counterfoil: Command) -> None:
    found = [
        counterfoil.json(*IMPORT, "--check"),
        counterfoil.json(*IMPORT, "--output", "records.ndjson"),
        counterfoil.json(*IMPORT, "--load", "--check"),
        counterfoil.json(*IMPORT, "--load"),
        counterfoil.json("load", "records.ndjson", "--check"),
        counterfoil.json("load", "records.ndjson"),
        counterfoil.json("loads", 1),
    ]
    totals = [one["totals"] for one in found]
    names = ("day", "bills", "voids", "refunds", "net", "tip")
    assert [tuple(day[name] for name in names) for day in totals[0]["days"]] == DAYS
    assert all(each == totals[0] for each in totals)


def test_bills_that_do_not_add_up_are_counted_and_named(counterfoil: Command) -> None:
    totals = counterfoil.json(*IMPORT, "--check")["totals"]
    assert totals["lines"] == {"compared": 3, "different": 1}
    (named,) = totals["notAddingUp"]
    assert (named["billId"], named["difference"]) == ("4", "5.00")
    assert "bill 4 of shop riverside: 5.00" in counterfoil(*IMPORT, "--check").stdout


def test_the_printed_totals_fit_into_80_columns(counterfoil: Command) -> None:
    printed = counterfoil(*IMPORT, "--load").stdout
    table = [line for line in printed.splitlines() if line.startswith(("day", "2026", "total"))]
    assert len(table) == 4
    assert max(map(len, printed.splitlines())) <= 80


@pytest.mark.programs
def test_on_a_narrow_terminal_totals_are_blocks_with_the_whole_id_of_the_shop(counterfoil: Command) -> None:
    Path("mapping.toml").write_text(MAPPING.replace("riverside", "r" * 40), "utf-8")
    printed = on_terminal(*IMPORT, "--load", "--with-shops", "--store", counterfoil.store, columns=60, NO_COLOR="1")
    day, figures = printed.replace("\r", "").partition("2026-11-15  ")[2].splitlines()[:2]
    assert (day, figures.strip()) == ("r" * 40, "bills 1 · void 0 · refunds 0 · net 80.00 · tip 0.00 ·")


def test_two_days_of_twelve_shops_are_listed_by_shop(counterfoil: Command) -> None:
    by_column = MAPPING.replace('[shop]\nid = "riverside"\nclosingTime = "04:00"\n', "")
    Path("mapping.toml").write_text(by_column.replace("[bill]\n", '[bill]\nshopId = "Item"\n'), "utf-8")
    days, shops = (1, 2), range(1, 13)
    export(*(f"{day}-{shop},2026-11-{day:02} 12:00,10.00,0,no,Shop {shop},10.00" for day in days for shop in shops))
    printed = counterfoil(*IMPORT, "--check").stdout
    assert [printed.count(f"2026-11-0{day}  Shop ") for day in days] == [12, 12]
    assert "--json lists every shop and day" not in printed


def test_many_days_are_summed_up(counterfoil: Command) -> None:
    export(*(f"{day},2026-10-{day:02} 12:00,10.00,0,no,Tea,10.00" for day in range(1, 29)))
    printed = counterfoil(*IMPORT, "--check").stdout
    assert "280.00" in printed
    assert "2026-10-01 to 2026-10-28 (28 days, 1 shop)" in printed
    assert "2026-10-15" not in printed


@pytest.mark.parametrize("amount", ["1255.50", "1,255.50", "2026-11-14=1175.5", "2026-11-15=80"])
def test_a_net_that_agrees_changes_nothing(counterfoil: Command, amount: str) -> None:
    assert counterfoil.json(*IMPORT, "--load", "--expect-net", amount)["added"] == 5


@pytest.mark.parametrize("amount", ["1255.51", "2026-11-14=1175.51", "2026-11-16=1"])
def test_nothing_is_written_if_the_net_differs(counterfoil: Command, amount: str) -> None:
    counterfoil(*IMPORT, "--output", "records.ndjson")
    expected = ("--expect-net", amount)
    counterfoil(*IMPORT, "--load", *expected, status=1)
    counterfoil(*IMPORT, "--output", "new.ndjson", *expected, status=1)
    counterfoil("load", "records.ndjson", *expected, status=1)
    assert counterfoil(*IMPORT, *expected, status=1).stdout == ""
    assert not counterfoil.store.exists()
    assert not Path("new.ndjson").exists()


def test_a_difference_is_said_with_both_amounts(counterfoil: Command) -> None:
    said = counterfoil(*IMPORT, "--check", "--expect-net", "2,000", status=1).stderr
    assert "1,255.50" in said
    assert "2,000.00" in said


@pytest.mark.parametrize("amount", ["", "12,34", "1.2.3", "yesterday=5", "=5", "2026-11-14=", "2026-02-30=1", "1e5"])
def test_a_net_that_cannot_be_read_is_a_usage_error(counterfoil: Command, amount: str) -> None:
    counterfoil(*IMPORT, "--expect-net", amount, status=2)


def test_standard_input_is_copied_and_compared_before_it_is_loaded(counterfoil: Command) -> None:
    bill = b'{"kind":"bill","id":"b_1","shopId":"sh_1","amounts":{"net":5}}'
    counterfoil("load", "-", "--expect-net", "6", status=1, stdin=b"\n".join([SHOPS[0], bill]))
    counterfoil("load", "-", "--expect-net", "5", stdin=b"\n".join([SHOPS[0], bill]))
    assert [load["changed"] for load in counterfoil.json("loads")] == [2]


def test_an_import_whose_bills_mostly_do_not_add_up_is_loaded_only_if_it_is_accepted(counterfoil: Command) -> None:
    export(*(f"{number},2026-11-14 12:00,10.00,0,no,Tea,12.00" for number in range(3)))
    counterfoil(*IMPORT, "--check", status=3)
    refused = counterfoil(*IMPORT, "--load", status=1).stderr
    assert "the net of most of its bills differs" in refused
    assert "--accept-change" in refused
    assert not counterfoil.store.exists()
    counterfoil(*IMPORT, "--load", "--accept-change", status=3)
    assert counterfoil.stored()[0] == 3


def test_an_import_whose_rows_are_not_its_totals_is_loaded_only_if_it_is_accepted(counterfoil: Command) -> None:
    export("1,2026-11-14 12:00,10.00,0,no,Tea,10.00", "Total,,12.00,,,,12.00")
    refused = counterfoil(*IMPORT, "--load", status=1).stderr
    assert "Total is 12.00 in line 3, but its rows add up to 10.00. If the export is right, repeat" in refused
    assert not counterfoil.store.exists()
    counterfoil(*IMPORT, "--load", "--accept-change", status=3)
    assert counterfoil.stored()[0] == 1
