"""A delivery that suddenly differs from earlier deliveries is not loaded until the operator accepts the change."""

from pathlib import Path

import pytest

from cli.command import Command, on_terminal
from cli.watched_folder import bills
from counterfoil.cli.load_run import LoadReport, new_rejects_file, run_load
from counterfoil.ingest.pipeline import Summary
from counterfoil.ingest.sources import open_source
from counterfoil.settings import load


def test_a_sudden_change_is_not_loaded_and_reported_with_its_own_exit_status(usual: Command) -> None:
    loads = usual.json("loads")
    result = usual("load", "-", stdin=bills(1_000, closedAt="14/11/2026"), status=6)
    assert usual.json("loads") == loads
    assert "Nothing was written." in result.stdout
    assert "ALARM       10.0% of bills have no date (25 of 250; at most 0.0% in earlier loads)" in result.stdout
    assert "load the records with --accept-change" in result.stdout
    told = usual.json("load", "-", stdin=bills(1_000, closedAt="14/11/2026"), status=6)
    change = {"records": 25, "of": 250, "share": 0.1, "highestBefore": 0.0}
    assert told["alarms"] == [
        {"measure": "undated", "field": None, **change},
        {"measure": "unreadable", "field": "bill: closedAt", **change},
    ]


def raise_alarm(counterfoil: Command, content: bytes) -> None:
    """Load records that differ from earlier ones without the check before it, as if the store had changed since."""
    settings = load({"store": str(counterfoil.store)}, {})
    path = counterfoil.store.parent / "changed.ndjson"
    path.write_bytes(content)
    source = open_source(str(path))
    run_load(settings, LoadReport(summary=Summary(source=""), rejects=new_rejects_file(settings, ""), records=source))


def test_doctor_and_status_show_an_alarm_until_a_load_is_normal_again(usual: Command) -> None:
    assert [found["status"] for found in usual.findings("intake")] == ["ok"]
    raise_alarm(usual, bills(1_000, lines=[]))
    (found,) = usual.findings("intake")
    assert found["status"] == "warn"
    assert "10.0% of bills have no items" in found["message"]
    assert [alarm["measure"] for alarm in usual.json("status", status=1)["loadAlarms"]] == ["no_items"]
    usual("load", "-", stdin=bills(0))
    assert [found["status"] for found in usual.findings("intake")] == ["ok"]
    assert usual.json("status", status=1)["loadAlarms"] == []


def test_the_operator_accepts_a_change_and_it_is_normal_from_then_on(usual: Command) -> None:
    raise_alarm(usual, bills(1_000, table_no=4))
    assert "Accepted as normal: unknown field bill: table_no" in usual("load", "--accept-change").stdout
    assert usual.json("load", "-", stdin=bills(2_000, table_no=4))["alarms"] == []
    assert "no sudden change to accept" in usual("load", "--accept-change").stdout


def test_a_load_may_accept_its_own_change(usual: Command) -> None:
    told = usual.json("load", "-", "--accept-change", stdin=bills(1_000, table_no=4))
    assert told["alarms"] == []
    assert [alarm["field"] for alarm in told["accepted"]] == ["bill: table_no"]
    assert usual.json("load", "--accept-change") == {"accepted": []}


def test_a_jump_in_rejected_lines_raises_an_alarm(usual: Command) -> None:
    told = usual.json("load", "-", stdin=bills(1_000) + b"nonsense\n" * 40, status=6)
    assert [alarm["measure"] for alarm in told["alarms"]] == ["rejected"]
    assert told["rejected"] == 40


def test_a_check_reports_the_alarm_and_stores_nothing(usual: Command) -> None:
    told = usual.json("load", "-", "--check", stdin=bills(1_000, lines=[]), status=6)
    assert [alarm["measure"] for alarm in told["alarms"]] == ["no_items"]
    assert [found["status"] for found in usual.findings("intake")] == ["ok"]
    assert "--accept-change" in usual("load", "--check", "--accept-change", status=2).stderr
    text = usual("load", "-", "--check", stdin=bills(1_000, lines=[]), status=6).stdout
    assert "If the change is intended, load the records with --accept-change.\n" in text


def test_a_sudden_change_keeps_the_whole_delivery_where_it_is(usual: Command, spool: Path, tmp_path: Path) -> None:
    (spool / "bills.ndjson").write_bytes(bills(1_000, lines=[]))
    (spool / "damaged.ndjson.gz").write_bytes(b"not gzip")
    told = usual.json("load", spool, "--quarantine", tmp_path / "q", status=6)
    assert (told["quarantined"], len(list(spool.iterdir()))) == ([], 2)
    assert [alarm["measure"] for alarm in told["alarms"]] == ["no_items"]
    told = usual.json("load", spool, "--quarantine", tmp_path / "q", "--accept-change", status=3)
    assert [alarm["measure"] for alarm in told["accepted"]] == ["no_items"]
    assert told["quarantined"] == [str(path) for path in (tmp_path / "q").glob("*-damaged.ndjson.gz")]


@pytest.mark.programs
def test_a_terminal_is_asked_whether_a_sudden_change_is_to_be_loaded(usual: Command, tmp_path: Path) -> None:
    delivery = tmp_path / "bills.ndjson"
    delivery.write_bytes(bills(1_000, lines=[]))
    words = ("load", delivery, "--store", usual.store)
    assert "interrupted" in on_terminal(*words, typed=b"n\n")
    assert len(usual.json("loads")) == 3
    assert "Accepted as normal" in on_terminal(*words, typed=b"y\n")
    assert len(usual.json("loads")) == 4


def test_a_field_name_that_may_be_personal_data_is_not_stored(usual: Command) -> None:
    personal = ("0812345678", "somebody@example.com", "tel_0812345678", "สมชาย", "Nok Example")
    told = usual.json("load", "-", "--accept-change", stdin=bills(1_000, **dict.fromkeys(personal, 1)))
    assert [alarm["field"] for alarm in told["accepted"]] == ["bill: (other fields)"]
    stored = b"".join(file.read_bytes() for file in usual.store.glob("books.sqlite3*"))
    assert [name for name in personal if name.encode() in stored] == []
