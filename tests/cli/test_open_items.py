"""Open items on the command line: what was delivered and not loaded is a warning until somebody deals with it."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from cli.command import SHOPS, Command
from counterfoil.checks.findings import KINDS
from counterfoil.cli.terminal import message

BILL = json.dumps({"kind": "bill", "id": "b_1", "shopId": "sh_1"}).encode()


@pytest.fixture
def rejected(counterfoil: Command, tmp_path: Path) -> Path:
    """A delivery whose bill is rejected, because its shop is not loaded yet."""
    delivery = tmp_path / "bills-16.ndjson"
    delivery.write_bytes(BILL)
    counterfoil("load", delivery, status=3)
    return delivery


def waiting(counterfoil: Command) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = counterfoil.json("loads", "open")
    return found


def codes(counterfoil: Command) -> list[str]:
    """Return the codes of the findings about open items."""
    return [found["code"] for found in counterfoil.findings("items")]


def test_rejected_lines_are_a_warning_until_their_rejects_file_is_loaded(counterfoil: Command, rejected: Path) -> None:
    assert rejected.exists()
    counterfoil("load", "-", stdin=b"\n".join(SHOPS))
    assert codes(counterfoil) == ["items_rejects"]
    (item,) = waiting(counterfoil)
    assert (item["kind"], item["lines"], item["load"], item["source"]) == ("rejects", 1, 1, "bills-16.ndjson")
    counterfoil("load", item["path"])
    assert (waiting(counterfoil), codes(counterfoil)) == ([], ["nothing_waiting"])


def test_other_deliveries_of_the_same_name_close_nothing(counterfoil: Command, tmp_path: Path) -> None:
    for day, content in (("mon", BILL), ("tue", BILL.replace(b"b_1", b"b_2")), ("wed", b"\n".join(SHOPS))):
        (tmp_path / day).mkdir()
        (tmp_path / day / "bills.ndjson").write_bytes(content)
        counterfoil("load", tmp_path / day / "bills.ndjson", status=0 if day == "wed" else 3)
    assert [(item["source"], item["lines"]) for item in waiting(counterfoil)] == [("bills.ndjson", 1)] * 2


def test_rejected_lines_stay_open_if_their_rejects_file_is_gone(counterfoil: Command, rejected: Path) -> None:
    assert rejected.exists()
    (item,) = waiting(counterfoil)
    Path(item["path"]).unlink()
    counterfoil("load", "-", stdin=b"\n".join(SHOPS))
    assert codes(counterfoil) == ["items_rejects"]
    counterfoil("loads", "resolve", item["number"])
    assert codes(counterfoil) == ["nothing_waiting"]


def test_an_item_is_resolved_by_hand_and_that_is_audited(counterfoil: Command, rejected: Path) -> None:
    assert rejected.exists()
    (item,) = waiting(counterfoil)
    assert counterfoil.json("loads", "resolve", item["number"]) == {"resolved": [item["number"]]}
    assert waiting(counterfoil) == []
    assert "is not open" in counterfoil("loads", "resolve", item["number"], status=1).stderr
    assert next(entry["act"] for entry in counterfoil.json("audit")) == "items_resolved"


def test_closing_an_item_names_what_was_closed_and_its_load(counterfoil: Command, rejected: Path) -> None:
    counterfoil("load", "-", stdin=b"\n".join(SHOPS))
    rejected.write_bytes(BILL.replace(b"sh_1", b"sh_9"))
    counterfoil("load", rejected, status=3)
    assert [(item["number"], item["load"]) for item in waiting(counterfoil)] == [(1, 1), (2, 3)]
    resolved = "Resolved item 2: bills-16.ndjson, 1 line of load 3.\n"
    assert counterfoil("loads", "resolve", 2).stdout == resolved
    assert message("item_or_load") in counterfoil("loads", "open").stderr


@pytest.mark.parametrize("verb", ["load", "resolve"])
def test_a_load_that_did_not_finish_stays_a_warning_after_another_load(
    counterfoil: Command, tmp_path: Path, verb: str
) -> None:
    shops, other = tmp_path / "shops.ndjson.gz", tmp_path / "other.ndjson"
    whole = gzip.compress(b"\n".join(SHOPS))
    shops.write_bytes(whole[:-9])
    other.write_bytes(SHOPS[0])
    counterfoil("load", shops, status=1)
    assert codes(counterfoil) == ["nothing_waiting"]
    (finding,) = counterfoil.findings("load")
    assert finding["status"] == "warn"
    assert f"load 1: {KINDS[finding['code']].text.partition('{')[0]}" in counterfoil("loads", "open").stderr
    counterfoil("load", other)
    assert codes(counterfoil) == ["items_unfinished"]
    (item,) = waiting(counterfoil)
    assert (item["kind"], item["source"], item["load"]) == ("unfinished", "shops.ndjson.gz", 1)
    counterfoil("load", other)
    assert waiting(counterfoil) == [item]
    shops.write_bytes(whole)
    counterfoil(*(("load", shops) if verb == "load" else ("loads", "resolve", item["number"])))
    assert codes(counterfoil) == ["nothing_waiting"]
    counterfoil("load", other)
    assert codes(counterfoil) == ["nothing_waiting"]


def test_a_quarantined_file_is_open_until_it_is_resolved(counterfoil: Command, spool: Path) -> None:
    whole = gzip.compress(b"\n".join(SHOPS))
    (spool / "shops.ndjson.gz").write_bytes(whole[:-9])
    counterfoil("load", spool, "--quarantine", spool.with_name("quarantine"), status=3)
    (item,) = waiting(counterfoil)
    assert (item["kind"], item["source"], item["load"], item["lines"]) == ("quarantined", "shops.ndjson.gz", 1, None)
    assert Path(item["path"]).exists()
    assert codes(counterfoil) == ["items_quarantined"]
    (spool / "shops.ndjson.gz").write_bytes(whole)
    counterfoil("load", spool)
    assert waiting(counterfoil) == [item]
    counterfoil("loads", "resolve", item["number"])
    assert waiting(counterfoil) == []


def test_rows_that_an_import_rejects_are_open_until_they_are_resolved(counterfoil: Command, tmp_path: Path) -> None:
    export, mapping = tmp_path / "export.csv", tmp_path / "mapping.toml"
    mapping.write_text(MAPPING, "utf-8")
    export.write_text("No,Closed,Net\n1,2026-11-14 12:00,100\n2,yesterday,50\n", "utf-8")
    counterfoil("load", "-", stdin=b"\n".join(SHOPS))
    counterfoil("import", "--mapping", mapping, export, "--load", status=3)
    (item,) = waiting(counterfoil)
    assert (item["kind"], item["lines"], item["source"], item["path"]) == ("rejects", 1, "export.csv", "")
    export.write_text("No,Closed,Net\n1,2026-11-14 12:00,100\n2,2026-11-14 12:05,50\n", "utf-8")
    counterfoil("import", "--mapping", mapping, export, "--load")
    assert waiting(counterfoil) == [item]


MAPPING = """
[dates]
order = "ymd"
timezone = "Asia/Bangkok"
[shop]
id = "sh_1"
[bill]
id = "No"
closedAt = "Closed"
amounts.net = "Net"
"""
