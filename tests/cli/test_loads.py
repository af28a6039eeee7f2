"""Tests for `counterfoil loads`."""

import json
from pathlib import Path

from cli.command import SHOPS, Command
from cli.watched_folder import bills
from counterfoil.domain.open_items import MAX_FILES

REJECTED = (b"not JSON", json.dumps({"kind": "bill", "id": "b_1", "shopId": "nowhere"}).encode())


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
    assert "unknown_shop" in printed
    assert "not JSON" not in printed


def test_a_rejected_line_without_named_fields_has_a_dash_in_their_column(counterfoil: Command) -> None:
    counterfoil("load", "-", stdin=REJECTED[0], status=3)
    (load,) = counterfoil.json("loads")
    heading, row = counterfoil("loads", load["number"]).stdout.splitlines()[-2:]
    assert heading.split() == ["line", "reason", "fields", "source"]
    assert row.split() == ["1", "not_json", "-", "stdin"]


def test_a_load_that_does_not_exist_is_refused(counterfoil: Command) -> None:
    counterfoil("init")
    assert "there is no load 7" in counterfoil("loads", 7, status=1).stderr
    assert "`loads open`" in counterfoil("loads", "opne", status=2).stderr


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
