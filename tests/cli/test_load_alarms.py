"""A delivery that suddenly differs from earlier ones is not loaded until the operator accepts the change."""

import gzip
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cli.command import SHOPS, Command, on_terminal
from cli.watched_folder import Watched, bills, names
from counterfoil import bootstrap
from counterfoil.cli.load_run import LoadReport, new_rejects_file, run_load
from counterfoil.cli.store_loader import StoreLoader
from counterfoil.domain.deliveries import DeliveryPreview
from counterfoil.ingest.pipeline import Summary
from counterfoil.ingest.sources import open_source
from counterfoil.ingest.spool import Spool
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


def test_loading_goes_on_after_a_jump_of_the_average_bill_was_accepted(usual: Command) -> None:
    usual("load", "-", "--accept-change", stdin=bills(1_000, amounts={"net": 4_000}))
    assert usual.json("load", "-", stdin=bills(2_000, amounts={"net": 4_000}))["alarms"] == []


def test_a_jump_in_rejected_lines_raises_an_alarm(usual: Command) -> None:
    told = usual.json("load", "-", stdin=bills(1_000) + b"nonsense\n" * 40, status=6)
    assert [alarm["measure"] for alarm in told["alarms"]] == ["rejected"]
    assert told["rejected"] == 40


def test_good_lines_are_loaded_although_a_small_load_before_them_had_rejects(usual: Command) -> None:
    usual("load", "-", stdin=bills(1_000, 149) + b"nonsense\n" * 11, status=3)
    told = usual.json("load", "-", stdin=bills(2_000, 50))
    assert (told["added"], told["alarms"]) == (50, [])
    (found,) = usual.findings("intake")
    assert (found["status"], "11 of 210" in found["message"]) == ("warn", True)


def test_a_check_reports_the_alarm_and_stores_nothing(usual: Command) -> None:
    told = usual.json("load", "-", "--check", stdin=bills(1_000, lines=[]), status=6)
    assert [alarm["measure"] for alarm in told["alarms"]] == ["no_items"]
    assert [found["status"] for found in usual.findings("intake")] == ["ok"]
    assert "--accept-change" in usual("load", "--check", "--accept-change", status=2).stderr


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


NUMBER = 250


class Deliveries(Watched):
    """A watched folder, with what became of the files in it."""

    @property
    def command(self) -> Command:
        return Command(self.store)

    def names(self, place: str) -> list[str]:
        """Return the delivered names of the files in `done`, `held` or `quarantine`."""
        return [name for name in names(self.kept / place) if not name.endswith(".reason.txt")]

    def waiting(self) -> list[dict[str, Any]]:
        return list(self.command.json("loads", "open"))

    def bills(self) -> int:
        return sum(int(load["changed"]) for load in self.command.json("loads")) - len(SHOPS)

    def again(self) -> "Deliveries":
        """Start another watcher of the same folders."""
        self.kept.mkdir(exist_ok=True)
        return Deliveries(self.folder, self.store, self.kept)


@pytest.fixture
def watched(usual: Command, spool: Path) -> Deliveries:
    kept = spool.with_name("kept")
    kept.mkdir()
    return Deliveries(spool, usual.store, kept)


def crash(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_sudden_change_is_held_and_nothing_of_it_is_loaded(watched: Deliveries) -> None:
    watched.take(d=bills(1_000, lines=[]))
    assert (watched.bills(), watched.names("held"), watched.names("done")) == (3 * NUMBER, ["d.ndjson"], [])
    (item,) = watched.waiting()
    assert (item["kind"], item["source"], item["decision"]) == ("held", "d.ndjson", None)
    assert "10.0% of bills have no items" in item["reason"]
    assert [found["code"] for found in watched.command.findings("items")] == ["items_held"]
    watched.take()
    assert len(watched.waiting()) == 1


def preview_of(watched: Deliveries) -> DeliveryPreview:
    reads = bootstrap.store(load({"store": str(watched.store)}, {})).reads()
    (item,) = reads.open_items()
    found = reads.delivery_preview(item.identity)
    assert found
    return found


def test_a_held_delivery_says_what_it_would_change_and_names_nobody(watched: Deliveries) -> None:
    # Every tenth bill has lost its items. The first 110 are stored already.
    watched.take(d=bills(740, NUMBER + 10, lines=[], cashier="Somebody", memberId="4711", amounts={"net": 3}))
    found = preview_of(watched)
    assert (found.bills, found.added, found.changed, found.shops) == (260, 150, 11, ["sh_1"])
    assert [doubt.measure for doubt in found.doubts] == ["no_items"]
    (day,) = found.days
    # Eleven bills come to 2 more. Of the new ones, 15 state 3, and the others 1.
    assert (day.day, day.added, day.changed, day.net) == ("2025-10-09", 150, 11, "202.00")
    changed = found.examples[0]
    assert (changed.change, changed.net, changed.lines) == ("changed", "3.00", 0)
    assert (changed.stored_net, changed.stored_lines, changed.stored_day) == ("1.00", 1, "2025-10-09")
    assert [bill.change for bill in found.examples] == ["changed"] * 10 + ["added"] * 10
    assert "Somebody" not in str(found)
    assert "m1_" not in str(found)


def test_a_closed_item_leaves_no_preview(watched: Deliveries) -> None:
    watched.take(d=bills(1_000, lines=[]))
    before = preview_of(watched)
    watched.command("loads", "discard", watched.waiting()[0]["number"])
    watched.take(e=bills(2_000, lines=[], table_no=4))
    assert preview_of(watched) != before
    with closing(sqlite3.connect(watched.store / "books.sqlite3")) as connection:
        assert connection.execute("SELECT count(*) FROM delivery_previews").fetchone() == (1,)


def test_a_preview_is_the_same_whoever_the_members_are(watched: Deliveries) -> None:
    """Bills with a member are compared under the store's own secret, so an equal bill is no change."""
    member = {"memberId": "4711"}
    watched.take(c=bills(5_000, 20, **member))
    watched.take(d=bills(5_000, 20, **member) + bills(6_000, lines=[]))
    found = preview_of(watched)
    assert (found.added, found.changed) == (NUMBER, 0)


def test_an_accepted_delivery_is_loaded_and_normal_from_then_on(watched: Deliveries) -> None:
    watched.take(d=bills(1_000, lines=[]))
    accepted = watched.command("loads", "accept", "d.ndjson")
    assert accepted.stdout == f"Accepted item {watched.waiting()[0]['number']}: d.ndjson, held.\n"
    assert "later deliveries with the same change count as usual and are not held" in accepted.stderr
    assert watched.bills() == 3 * NUMBER
    watched.take()
    assert (watched.bills(), watched.names("held"), watched.waiting()) == (4 * NUMBER, [], [])
    assert "d.ndjson" in watched.names("done")
    watched.take(e=bills(2_000, lines=[]))
    assert watched.bills() == 5 * NUMBER
    assert next(entry["act"] for entry in watched.command.json("audit")) == "delivery_accepted"
    assert [load["accepted"] for load in watched.command.json("loads")] == [False, True, False, False, False]


def test_a_discarded_delivery_is_quarantined_and_no_longer_a_warning(watched: Deliveries) -> None:
    watched.take(d=bills(1_000, lines=[]))
    watched.command("loads", "discard", watched.waiting()[0]["number"])
    watched.take()
    assert (watched.bills(), watched.names("held"), watched.names("quarantine")) == (3 * NUMBER, [], ["d.ndjson"])
    assert watched.waiting() == []
    # A watcher that starts again knows this file.
    watched.again()
    assert watched.waiting() == []


def test_a_held_file_that_is_gone_stays_a_warning_that_says_so_until_it_is_resolved(watched: Deliveries) -> None:
    watched.take(d=bills(1_000, lines=[]))
    (item,) = watched.waiting()
    watched.command("loads", "accept", item["number"])
    assert [item["state"] for item in watched.waiting()] == ["accepted"]
    Path(item["path"]).unlink()
    watched.again().take()
    assert [(item["decision"], item["state"]) for item in watched.waiting()] == [("accepted", "gone")]
    for verb in ("accept", "discard"):
        assert "use resolve" in watched.command("loads", verb, item["number"], status=1).stderr
    watched.command("loads", "resolve", item["number"])
    assert watched.waiting() == []


def test_an_accepted_file_that_is_back_is_loaded(watched: Deliveries) -> None:
    watched.take(d=bills(1_000, lines=[]))
    (item,) = watched.waiting()
    watched.command("loads", "accept", item["number"])
    away = watched.kept.rename(watched.kept.with_name("away"))
    watched.again().take()
    assert [item["state"] for item in watched.waiting()] == ["gone"]
    shutil.rmtree(watched.kept)
    away.rename(watched.kept)
    watched.take()
    assert (watched.waiting(), watched.names("held"), watched.bills()) == ([], [], 4 * NUMBER)


def test_a_discarded_file_that_cannot_be_moved_is_a_warning_until_it_can(watched: Deliveries) -> None:
    watched.take(d=bills(1_000, lines=[]))
    watched.command("loads", "discard", "d.ndjson")
    quarantine = watched.kept / "quarantine"
    quarantine.write_bytes(b"")
    watched.take()
    watched.report()
    assert [found["code"] for found in watched.command.findings("folders")] == ["folder_stuck"]
    quarantine.unlink()
    watched.take()
    watched.report()
    assert [found["code"] for found in watched.command.findings("folders")] == ["folder_watched"]
    assert watched.names("quarantine") == ["d.ndjson"]


@pytest.mark.parametrize("content", [b"", b" \n\n", gzip.compress(b"")], ids=["nothing", "blank", "gzip"])
def test_an_empty_delivery_is_quarantined(watched: Deliveries, content: bytes) -> None:
    name = "d.ndjson.gz" if content.strip() else "d.ndjson"
    watched.deliver(name, content)
    watched.take(e=b"[]", f=bills(1_000))
    assert [(item["kind"], item["source"]) for item in watched.waiting()] == [("quarantined", name)]
    assert watched.names("done")[-2:] == ["e.ndjson", "f.ndjson"]


def test_each_of_two_deliveries_of_the_same_name_is_decided_alone(watched: Deliveries) -> None:
    watched.take(d=bills(1_000, lines=[]))
    watched.take(d=bills(2_000, lines=[]))
    first, second = watched.waiting()
    assert "Nothing was changed." in watched.command("loads", "accept", "d.ndjson", status=1).stderr
    assert watched.command.json("loads", "accept", first["number"]) == {"accepted": [first["number"]]}
    watched.take()
    assert ([item["number"] for item in watched.waiting()], watched.names("held")) == ([second["number"]], ["d.ndjson"])
    watched.command("loads", "accept", second["number"])
    watched.take()
    assert (watched.waiting(), watched.names("held"), watched.bills()) == ([], [], 5 * NUMBER)


def test_a_corrected_delivery_of_the_same_name_leaves_the_held_one_open(watched: Deliveries) -> None:
    watched.take(d=bills(1_000, lines=[]))
    watched.take(d=bills(1_000))
    assert ([item["source"] for item in watched.waiting()], watched.names("held")) == (["d.ndjson"], ["d.ndjson"])


def test_a_held_file_that_is_loaded_by_hand_is_moved_away(watched: Deliveries) -> None:
    watched.take(d=bills(1_000, lines=[]))
    watched.command("load", "--accept-change", watched.waiting()[0]["path"])
    assert watched.waiting() == []
    watched.take()
    assert (watched.names("held"), "d.ndjson" in watched.names("done")) == ([], True)


def test_a_held_file_that_was_changed_is_not_loaded(watched: Deliveries) -> None:
    watched.take(d=bills(1_000, lines=[]))
    (item,) = watched.waiting()
    watched.command("loads", "accept", item["number"])
    with Path(item["path"]).open("ab") as file:
        file.write(bills(2_000, 1))
    watched.take()
    (refused,) = watched.waiting()
    assert (watched.bills(), refused["decision"], watched.names("held")) == (3 * NUMBER, None, ["d.ndjson"])
    assert refused["reason"] != item["reason"]


def test_a_held_file_that_was_changed_is_not_accepted(watched: Deliveries) -> None:
    watched.take(d=bills(1_000, lines=[]))
    (item,) = watched.waiting()
    with Path(item["path"]).open("ab") as file:
        file.write(bills(2_000, 1))
    watched.command("loads", "accept", item["number"], status=1)
    assert watched.waiting() == [item]


def test_an_accepted_file_is_loaded_by_a_watcher_on_a_machine_with_another_name(
    watched: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.take(d=bills(1_000, lines=[]))
    watched.command("loads", "accept", watched.waiting()[0]["number"])
    monkeypatch.setattr("socket.gethostname", lambda: "another-pod")
    again = watched.again()
    assert len(again.waiting()) == 1
    again.take()
    assert (again.waiting(), again.bills()) == ([], 4 * NUMBER)


def test_a_file_whose_watcher_was_killed_before_it_was_moved_is_moved_later(
    watched: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.take(d=bills(1_000, lines=[]))
    watched.command("loads", "accept", "d.ndjson")
    with monkeypatch.context() as patched:
        patched.setattr(Spool, "finish", crash)
        with pytest.raises(KeyboardInterrupt):
            watched.take()
    assert (watched.waiting(), watched.names("held")) == ([], ["d.ndjson"])
    again = watched.again()
    again.take()
    assert (again.waiting(), again.names("held"), again.bills()) == ([], [], 4 * NUMBER)


def test_items_stay_open_while_the_folder_of_kept_files_is_away(watched: Deliveries) -> None:
    watched.take(d=bills(1_000, lines=[]), e=b"nonsense")
    items = watched.waiting()
    away = watched.kept.rename(watched.kept.with_name("away"))
    again = watched.again()
    again.take()
    assert [item["number"] for item in again.waiting()] == [item["number"] for item in items]
    shutil.rmtree(watched.kept)
    away.rename(watched.kept)
    watched.again().take()
    assert again.waiting() == items


def test_a_delivery_that_cannot_be_moved_is_a_warning_until_it_can(watched: Deliveries) -> None:
    (watched.kept / "held").write_bytes(b"")
    watched.take(d=bills(1_000, lines=[]), e=bills(2_000))
    watched.report()
    (found,) = watched.command.findings("folders")
    assert (found["status"], found["code"]) == ("warn", "folder_stuck")
    assert "d.ndjson" in found["message"]
    (watched.folder / "d.ndjson").unlink()
    watched.report()
    assert [found["code"] for found in watched.command.findings("folders")] == ["folder_watched"]


def test_an_accepted_file_that_turns_out_to_be_damaged_is_quarantined(watched: Deliveries) -> None:
    # The list is not closed, but its bills are read.
    watched.deliver("d.json", b"[" + bills(1_000, lines=[]).strip().replace(b"\n", b","))
    watched.take()
    assert [item["kind"] for item in watched.waiting()] == ["held"]
    watched.command("loads", "accept", "d.json")
    watched.take()
    (item,) = watched.waiting()
    assert (item["kind"], item["decision"], Path(item["path"]).exists()) == ("quarantined", None, True)
    watched.command("loads", "resolve", item["number"])
    assert watched.waiting() == []


def test_only_the_file_that_differs_is_held(watched: Deliveries) -> None:
    watched.take(d=bills(1_000), e=bills(2_000, lines=[]), f=bills(3_000))
    assert (watched.names("held"), watched.bills()) == (["e.ndjson"], 5 * NUMBER)
    assert [item["load"] for item in watched.waiting()] == [None]


def test_small_files_that_differ_only_together_are_held_together(watched: Deliveries) -> None:
    parts = {name: bills(1_000 + 100 * place, 90, lines=[]) for place, name in enumerate("def")}
    watched.take(**parts)
    assert (watched.names("held"), watched.bills()) == (["d.ndjson", "e.ndjson", "f.ndjson"], 3 * NUMBER)


def test_a_file_is_held_before_a_crash_and_found_at_the_next_start(
    watched: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(StoreLoader, "report", crash)
        with pytest.raises(KeyboardInterrupt):
            watched.take(d=bills(1_000, lines=[]))
    assert watched.waiting() == []
    watched.again()
    assert [item["kind"] for item in watched.waiting()] == ["held"]


@pytest.mark.parametrize("verb", ["resolve", "accept", "discard"])
def test_a_verb_that_does_not_fit_the_item_changes_nothing(watched: Deliveries, verb: str) -> None:
    watched.take(d=bills(1_000, lines=[]) if verb == "resolve" else b"nonsense\n")
    (item,) = watched.waiting()
    assert "Nothing was changed." in watched.command("loads", verb, item["number"], status=1).stderr
    assert watched.waiting() == [item]
