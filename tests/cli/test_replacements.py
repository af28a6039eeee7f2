"""Tests for loads that would replace stored bills by other ones, because numbers start again or a bill is split."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cli.command import SHOPS, Command

pytestmark = pytest.mark.usefixtures("empty_store")


def bill(number: int, day: int = 14, *, dish: str = "Latte", net: float = 65, **fields: Any) -> dict[str, Any]:
    return {
        "kind": "bill",
        "id": str(number),
        "shopId": "sh_1",
        "closedAt": f"2026-11-{day:02}T12:{number % 60:02}",
        "lines": [{"name": dish, "qty": 1, "total": net}],
        "amounts": {"net": net},
        **fields,
    }


def day_of_bills(day: int, bills: int = 30) -> list[dict[str, Any]]:
    return [bill(number, day, dish=f"dish {day}", net=100 * day + number) for number in range(bills)]


def delivery(folder: Path, *records: dict[str, Any]) -> Path:
    path = folder / "delivery.ndjson"
    path.write_bytes(b"\n".join([SHOPS[0], *(json.dumps(record).encode() for record in records)]))
    return path


@pytest.mark.parametrize("batch", [7, 500])
def test_numbers_that_start_again_are_noticed_before_a_bill_is_written(
    counterfoil: Command, tmp_path: Path, batch: int
) -> None:
    counterfoil("load", delivery(tmp_path, *day_of_bills(14)))
    before = counterfoil.stored()
    found = counterfoil.json("load", delivery(tmp_path, *day_of_bills(15)), "--batch", batch, status=6)
    assert found["replacements"] | {"first": []} == {"stopped": True, "moved": 0, "otherBills": 30, "first": []}
    assert found["check"]
    assert counterfoil.stored() == before
    assert len(counterfoil.json("loads")) == 1


def test_days_with_the_same_numbers_in_one_file_are_not_merged(counterfoil: Command, tmp_path: Path) -> None:
    records = [record for day in range(1, 15) for record in day_of_bills(day)]
    found = counterfoil.json("load", delivery(tmp_path, *records), status=6)
    assert found["replacements"]["otherBills"] == 13 * 30
    # Nothing was stored before, so the delivery was not checked first.
    assert counterfoil.json("loads")[0]["state"] == "stopped"
    assert "These are the totals of what it read" in counterfoil("loads", "1").stderr


def test_a_change_that_is_accepted_replaces_the_bills(counterfoil: Command, tmp_path: Path) -> None:
    counterfoil("load", delivery(tmp_path, *day_of_bills(14)))
    found = counterfoil.json("load", delivery(tmp_path, *day_of_bills(15)), "--accept-change")
    assert found["changed"] == 30


def test_a_few_bills_of_a_till_may_move_to_another_day_and_are_named(counterfoil: Command, tmp_path: Path) -> None:
    bills = [record | {"deviceId": "till 1"} for record in day_of_bills(14)]
    counterfoil("load", delivery(tmp_path, *bills))
    moved = [*bills[:-2], *({**record, "closedAt": "2026-11-16T12:00"} for record in bills[-2:])]
    found = counterfoil.json("load", delivery(tmp_path, *moved))
    assert (found["changed"], found["replacements"]["moved"]) == (2, 2)
    assert [one["billId"] for one in found["replacements"]["first"]] == ["28", "29"]


def test_a_source_record_with_other_lines_replaces_the_bill_and_is_named(counterfoil: Command, tmp_path: Path) -> None:
    """The IDs of source records are unique, and the latest record counts."""
    counterfoil("load", delivery(tmp_path, bill(1)))
    found = counterfoil.json("load", delivery(tmp_path, bill(1, dish="Soup", net=50)))
    assert (found["changed"], found["replacements"]["otherBills"], found["replacements"]["stopped"]) == (1, 1, False)
    assert "other lines and another total" in counterfoil("load", delivery(tmp_path, bill(1))).stdout


def exported(folder: Path, bills: int, *more: str) -> list[object]:
    """Return the command that imports an export with so many bills, and further rows."""
    mapping, export = folder / "lines.toml", folder / "lines.csv"
    mapping.write_text(
        '[dates]\norder = "ymd"\n[shop]\nid = "sh_1"\n[bill]\nid = "No"\nclosedAt = "Date"\namounts.net = "Total"\n'
        '[line]\nname = "Item"\nqty = "Qty"\ntotal = "Total"\n',
        "utf-8",
    )
    rows = [f"{number},2026-11-14 12:{number:02},Latte,1,65" for number in range(bills)]
    export.write_text("\n".join(["No,Date,Item,Qty,Total", *rows, *more, ""]), "utf-8")
    return ["import", "--format", "csv", "--mapping", mapping, export, "--load"]


def test_the_second_half_of_a_bill_is_rejected_and_can_be_accepted(counterfoil: Command, tmp_path: Path) -> None:
    counterfoil(*exported(tmp_path, 30))
    half = exported(tmp_path, 29, "29,2026-11-14 12:29,Soup,1,50")
    found = counterfoil.json(*half, status=3)
    assert (found["changed"], found["reasons"]) == (0, {"other_bill": 1})
    assert counterfoil.json(*half, "--accept-change")["changed"] == 1


def test_an_import_is_guarded_too(counterfoil: Command, tmp_path: Path) -> None:
    for day, options, status in ((14, [], 0), (15, ["--check"], 6), (15, [], 6), (15, ["--accept-change"], 0)):
        rows = [f"{number},2026-11-{day} 12:{number}0,dish {day},1,{day}{number}.00" for number in range(6)]
        counterfoil(*exported(tmp_path, 0, *rows), *options, status=status)
    assert counterfoil.stored() == (6, Decimal(sum(range(150, 156))))


def test_an_import_that_would_miss_the_expected_net_because_of_another_bill_writes_nothing(
    counterfoil: Command, tmp_path: Path
) -> None:
    counterfoil(*exported(tmp_path, 30))
    other = exported(tmp_path, 29, "29,2026-11-14 12:50,Soup,1,50")
    failed = counterfoil(*other, "--expect-net", "1935", status=1)
    assert "1,885.00" in failed.stderr
    assert "without --check" not in failed.stdout
    assert counterfoil.stored() == (30, Decimal(30 * 65))
    counterfoil(*other, "--expect-net", "1935", "--accept-change")
    assert counterfoil.stored() == (30, Decimal(29 * 65 + 50))


def test_a_check_finds_what_a_load_would_replace(counterfoil: Command, tmp_path: Path) -> None:
    """Two tills that sell the same for the same price, and count alike."""
    counterfoil(*exported(tmp_path, 30))
    others = [f"{number},2026-11-14 19:30,Latte,1,65" for number in range(2)]
    new = [f"{number},2026-11-14 20:00,Latte,1,65" for number in range(100, 130)]
    found = counterfoil.json(*exported(tmp_path, 0, *others, *new), "--check", status=3)
    assert (found["replacements"]["otherBills"], found["totals"]["bills"]) == (2, 30)
    found = counterfoil.json(*exported(tmp_path, 0, *others), "--check", status=6)
    assert found["replacements"]["stopped"]


def test_a_check_compares_the_bills_of_a_delivery_with_each_other(counterfoil: Command, tmp_path: Path) -> None:
    found = counterfoil.json("load", delivery(tmp_path, *day_of_bills(14), *day_of_bills(15)), "--check", status=6)
    assert found["replacements"]["otherBills"] == 30


def test_a_check_without_a_load_says_that_it_could_not_compare_with_a_broken_store(
    counterfoil: Command, tmp_path: Path
) -> None:
    counterfoil("load", delivery(tmp_path, bill(1)))
    (counterfoil.store / "books.sqlite3").write_bytes(b"no database")
    *checking, _ = exported(tmp_path, 1)
    assert counterfoil(*checking, "--check").stderr.count("not compared") == 1
