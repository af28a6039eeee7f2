"""Tests for `counterfoil loads`: loads, and what was delivered and not loaded until somebody deals with it."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.command import SHOPS, Command
from cli.watched_folder import bills
from counterfoil.domain.open_items import MAX_FILES

pytestmark = pytest.mark.usefixtures("empty_store")

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
BILL = json.dumps({"kind": "bill", "id": "b_1", "shopId": "sh_1"}).encode()
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
REJECTED = (b"not JSON", BILL.replace(b"sh_1", b"nowhere"))


def test_the_latest_loads_are_listed_newest_first(counterfoil: Command) -> None:
    counterfoil("load", "-", stdin=b"\n".join(SHOPS))
    counterfoil("load", "-", stdin=b"\n".join(REJECTED), status=3)
    newest, oldest = counterfoil.json("loads")
    assert (newest["lines"], newest["changed"], newest["rejected"], newest["state"]) == (2, 0, 2, "finished")
    assert newest["reasons"] == {"not_json": 1, "unknown_shop": 1}
    assert (oldest["changed"], oldest["rejected"], oldest["number"]) == (len(SHOPS), 0, newest["number"] - 1)
    heading, *rows = counterfoil("loads").stdout.splitlines()
    assert heading.split()[:2] == ["load", "started"]
    assert [row.split()[0] for row in rows] == [str(newest["number"]), str(oldest["number"])]


def test_the_rejected_lines_of_a_load_are_listed_without_their_text(counterfoil: Command) -> None:
    counterfoil("load", "-", stdin=b"\n".join(REJECTED), status=3)
    (load,) = counterfoil.json("loads")
    found = counterfoil.json("loads", load["number"])
    assert [(one["line"], one["reason"]) for one in found["rejects"]] == [(1, "not_json"), (2, "unknown_shop")]
    printed = counterfoil("loads", load["number"]).stdout
    heading, first, second = printed.splitlines()[-3:]
    assert heading.split() == ["line", "reason", "fields", "source"]
    # No fields of these lines are named.
    assert first.split() == ["1", "not_json", "-", "stdin"]
    assert second.split() == ["2", "unknown_shop", "-", "stdin"]
    assert "not JSON" not in printed


def test_a_load_that_does_not_exist_is_refused(counterfoil: Command) -> None:
    counterfoil("init")
    assert "there is no load 7" in counterfoil("loads", 7, status=1).stderr
    assert "`counterfoil loads open`" in counterfoil("loads", "opne", status=2).stderr


def test_a_load_names_its_files_and_the_lines_that_each_rejected(counterfoil: Command, tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_bytes(b"\n".join(SHOPS))
    (tmp_path / "b.ndjson").write_bytes(b"\n".join(REJECTED))
    counterfoil("load", tmp_path / "a.ndjson", tmp_path / "b.ndjson", status=3)
    (load,) = counterfoil.json("loads")
    assert (load["files"], load["moreFiles"], load["alarms"]) == ({"a.ndjson": 0, "b.ndjson": 2}, 0, [])
    assert "a.ndjson, b.ndjson" in counterfoil("loads").stdout
    first, second, *_ = counterfoil("loads", load["number"]).stdout.splitlines()
    assert [first.split(maxsplit=1)[1], second.split(maxsplit=1)[1]] == ["a.ndjson", "b.ndjson (2 rejected)"]


def test_a_load_of_many_files_names_the_first_ones(counterfoil: Command, tmp_path: Path) -> None:
    for number in range(MAX_FILES + 5):
        (tmp_path / f"{number:04}.ndjson").write_bytes(SHOPS[0])
    counterfoil("load", tmp_path)
    (load,) = counterfoil.json("loads")
    assert (len(load["files"]), load["moreFiles"]) == (MAX_FILES, 5)
    assert "0000.ndjson, 0001.ndjson, 0002.ndjson and 252 more" in " ".join(counterfoil("loads").stdout.split())


def test_a_load_keeps_the_sudden_change_that_was_accepted_with_it(usual: Command) -> None:
    usual("load", "-", "--accept-change", stdin=bills(0).replace(b'"amounts"', b'"totals"'))
    load = usual.json("loads")[0]
    assert "unknown_field" in [alarm["measure"] for alarm in load["alarms"]]
    assert "ALARM" in usual("loads", load["number"]).stdout
    assert [load["accepted"] for load in usual.json("loads")] == [True, False, False, False]
    assert usual("loads").stdout.count("finished, accepted") == 1


def test_a_list_says_that_every_line_of_a_load_was_rejected(counterfoil: Command) -> None:
    counterfoil("load", "-", stdin=b"\n".join(REJECTED), status=3)
    assert "all lines rejected" in counterfoil("loads").stdout


@pytest.fixture
def item(counterfoil: Command, tmp_path: Path) -> dict[str, Any]:
    """The open item of a delivery whose bill was rejected, because its shop is not loaded yet."""
    delivery = tmp_path / "bills-16.ndjson"
    delivery.write_bytes(BILL)
    counterfoil("load", delivery, status=3)
    (item,) = waiting(counterfoil)
    return item


def waiting(counterfoil: Command) -> list[dict[str, Any]]:
    return list(counterfoil.json("loads", "open"))


def codes(counterfoil: Command) -> list[str]:
    """Return the codes of the findings about open items."""
    return [found["code"] for found in counterfoil.findings("items")]


def test_rejected_lines_are_a_warning_until_their_rejects_file_is_loaded(
    counterfoil: Command, item: dict[str, Any]
) -> None:
    counterfoil("load", "-", stdin=b"\n".join(SHOPS))
    assert codes(counterfoil) == ["items_rejects"]
    assert (item["kind"], item["lines"], item["load"], item["source"]) == ("rejects", 1, 1, "bills-16.ndjson")
    counterfoil("load", item["path"])
    assert (waiting(counterfoil), codes(counterfoil)) == ([], ["nothing_waiting"])


def test_lists_and_status_say_which_lines_of_which_file_were_rejected_and_why(
    counterfoil: Command, item: dict[str, Any]
) -> None:
    assert item["reason"] == "1 unknown_shop"
    assert "1 unknown_shop" in counterfoil("loads", "open").stdout
    (found,) = counterfoil.findings("items")
    assert "1 line of 1 load" in found["message"]
    assert "Latest: bills-16.ndjson." in found["message"]


def test_the_most_frequent_reasons_are_named_and_the_others_counted(counterfoil: Command) -> None:
    wrong = [b"not JSON"] * 3 + [BILL] * 2 + [b"{}", b'{"kind":"bill"}']
    counterfoil("load", "-", stdin=b"\n".join(wrong), status=3)
    assert [item["reason"] for item in waiting(counterfoil)] == ["3 not_json, 2 unknown_shop, 2 others"]


def test_other_deliveries_of_the_same_name_close_nothing(counterfoil: Command, tmp_path: Path) -> None:
    for day, content in (("mon", BILL), ("tue", BILL.replace(b"b_1", b"b_2")), ("wed", b"\n".join(SHOPS))):
        (tmp_path / day).mkdir()
        (tmp_path / day / "bills.ndjson").write_bytes(content)
        counterfoil("load", tmp_path / day / "bills.ndjson", status=0 if day == "wed" else 3)
    assert [(item["source"], item["lines"]) for item in waiting(counterfoil)] == [("bills.ndjson", 1)] * 2


def test_rejected_lines_stay_open_if_their_rejects_file_is_gone(counterfoil: Command, item: dict[str, Any]) -> None:
    Path(item["path"]).unlink()
    counterfoil("load", "-", stdin=b"\n".join(SHOPS))
    assert codes(counterfoil) == ["items_rejects"]
    counterfoil("loads", "resolve", item["number"])
    assert codes(counterfoil) == ["nothing_waiting"]


def test_an_item_is_resolved_by_hand_and_that_is_audited(counterfoil: Command, item: dict[str, Any]) -> None:
    assert counterfoil.json("loads", "resolve", item["number"]) == {"resolved": [item["number"]]}
    assert waiting(counterfoil) == []
    assert "is not open" in counterfoil("loads", "resolve", item["number"], status=1).stderr
    assert next(entry["act"] for entry in counterfoil.json("audit")) == "items_resolved"


@pytest.mark.usefixtures("empty_store", "item")
def test_closing_an_item_names_what_was_closed_and_its_load(counterfoil: Command, tmp_path: Path) -> None:
    counterfoil("load", "-", stdin=b"\n".join(SHOPS))
    (tmp_path / "bills-16.ndjson").write_bytes(BILL.replace(b"sh_1", b"sh_9"))
    counterfoil("load", tmp_path / "bills-16.ndjson", status=3)
    assert [(item["number"], item["load"]) for item in waiting(counterfoil)] == [(1, 1), (2, 3)]
    resolved = "Resolved item 2: bills-16.ndjson, 1 line of load 3.\n"
    assert counterfoil("loads", "resolve", 2).stdout == resolved
    assert "items and loads have numbers of their own" in counterfoil("loads", "open").stderr


@pytest.mark.parametrize("verb", ["load", "resolve"])
def test_a_load_that_did_not_finish_stays_a_warning_after_another_load(
    counterfoil: Command, tmp_path: Path, verb: str
) -> None:
    shops, other = tmp_path / "shops.ndjson.gz", tmp_path / "other.ndjson"
    whole = gzip.compress(b"\n".join(SHOPS))
    shops.write_bytes(whole[:-9])
    other.write_bytes(SHOPS[0])
    counterfoil("load", shops, status=1)
    assert counterfoil.json("loads")[0]["state"] == "stopped"
    assert counterfoil.json("status", status=1)["latestLoad"]["stopped"] is True
    assert codes(counterfoil) == ["nothing_waiting"]
    (finding,) = counterfoil.findings("load")
    assert finding["status"] == "warn"
    assert f"load 1: {finding['message'].partition('after')[0]}" in counterfoil("loads", "open").stderr
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
    assert f"Latest: {item['reason']}" in counterfoil.findings("items")[0]["message"]
    (spool / "shops.ndjson.gz").write_bytes(whole)
    counterfoil("load", spool)
    assert waiting(counterfoil) == [item]
    counterfoil("loads", "resolve", item["number"])
    assert waiting(counterfoil) == []


@pytest.mark.parametrize("packed", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_file_that_has_no_json_is_refused_and_leaves_no_load(
    counterfoil: Command, tmp_path: Path, packed: Callable[[bytes], bytes]
) -> None:
    counterfoil("load", "-", stdin=b"\n".join(SHOPS))
    export = tmp_path / "sales.csv"
    export.write_bytes(packed(b"No,Closed,Net\n1,2026-11-14 12:00,100\n"))
    assert "counterfoil import" in counterfoil("load", export, status=1).stderr
    assert (len(counterfoil.json("loads")), waiting(counterfoil)) == (1, [])
    export.write_bytes(packed(BILL))
    assert counterfoil.json("load", export)["added"] == 1


def test_rows_that_an_import_rejects_are_open_until_they_are_resolved(counterfoil: Command, tmp_path: Path) -> None:
    export, mapping = tmp_path / "export.csv", tmp_path / "mapping.toml"
    mapping.write_text(MAPPING, "utf-8")
    export.write_text("No,Closed,Net\n1,2026-11-14 12:00,100\n2,yesterday,50\n", "utf-8")
    counterfoil("load", "-", stdin=b"\n".join(SHOPS))
    counterfoil("import", "--mapping", mapping, export, "--load", status=3)
    (item,) = waiting(counterfoil)
    assert (item["kind"], item["lines"], item["source"], item["path"]) == ("rejects", 1, "export.csv", "")
    assert item["reason"] == "1 import_unreadable_value"
    export.write_text("No,Closed,Net\n1,2026-11-14 12:00,100\n2,2026-11-14 12:05,50\n", "utf-8")
    counterfoil("import", "--mapping", mapping, export, "--load")
    assert waiting(counterfoil) == [item]


def test_a_load_names_all_files_of_an_export(counterfoil: Command) -> None:
    files = [EXAMPLES / "loyverse-receipts.csv", EXAMPLES / "loyverse-receipts-by-item.csv"]
    counterfoil("import", *files, "--load", "--with-shops")
    (load,) = counterfoil.json("loads")
    assert load["files"] == {"loyverse-receipts.csv": 0, "loyverse-receipts-by-item.csv": 0}
    assert "loyverse-receipts-by-item.csv, loyverse-receipts.csv" in counterfoil("loads").stdout
