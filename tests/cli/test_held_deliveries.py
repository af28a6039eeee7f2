"""A delivery to a watched folder that differs sharply from earlier ones waits until the operator has decided."""

import gzip
import shutil
from pathlib import Path
from typing import Any

import pytest

from cli.command import SHOPS, Command
from cli.watched_folder import Watched, bills, names
from counterfoil.cli.load import StoreLoader
from counterfoil.cli.terminal import message
from counterfoil.ingest.spool import Spool

NUMBER = 250


class Deliveries(Watched):
    """A watched folder, with what became of the files in it."""

    def names(self, place: str) -> list[str]:
        """Return the delivered names of the files in `done`, `held` or `quarantine`."""
        return [name for name in names(self.kept / place) if not name.endswith(".reason.txt")]

    def waiting(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = Command(self.store).json("loads", "open")
        return found

    def bills(self) -> int:
        changed: list[int] = [load["changed"] for load in Command(self.store).json("loads")]
        return sum(changed) - len(SHOPS)

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


def test_a_sudden_change_is_held_and_nothing_of_it_is_loaded(watched: Deliveries, counterfoil: Command) -> None:
    watched.take(d=bills(1_000, lines=[]))
    assert (watched.bills(), watched.names("held"), watched.names("done")) == (3 * NUMBER, ["d.ndjson"], [])
    (item,) = watched.waiting()
    assert (item["kind"], item["source"], item["decision"]) == ("held", "d.ndjson", None)
    assert "10.0% of bills have no items" in item["reason"]
    assert [found["code"] for found in counterfoil.findings("items")] == ["items_held"]
    watched.take()
    assert len(watched.waiting()) == 1


def test_an_accepted_delivery_is_loaded_and_normal_from_then_on(watched: Deliveries, counterfoil: Command) -> None:
    watched.take(d=bills(1_000, lines=[]))
    accepted = counterfoil("loads", "accept", "d.ndjson")
    assert accepted.stdout == f"Accepted item {watched.waiting()[0]['number']}: d.ndjson, held.\n"
    assert message("usual_from_now") in accepted.stderr
    assert watched.bills() == 3 * NUMBER
    watched.take()
    assert (watched.bills(), watched.names("held"), watched.waiting()) == (4 * NUMBER, [], [])
    assert "d.ndjson" in watched.names("done")
    watched.take(e=bills(2_000, lines=[]))
    assert watched.bills() == 5 * NUMBER
    assert next(entry["act"] for entry in counterfoil.json("audit")) == "delivery_accepted"


def test_a_discarded_delivery_is_quarantined_and_no_longer_a_warning(watched: Deliveries, counterfoil: Command) -> None:
    watched.take(d=bills(1_000, lines=[]))
    counterfoil("loads", "discard", watched.waiting()[0]["number"])
    watched.take()
    assert (watched.bills(), watched.names("held"), watched.names("quarantine")) == (3 * NUMBER, [], ["d.ndjson"])
    assert watched.waiting() == []
    # A watcher that starts again knows this file.
    watched.again()
    assert watched.waiting() == []


def test_a_held_file_that_is_gone_stays_a_warning_that_says_so_until_it_is_resolved(
    watched: Deliveries, counterfoil: Command
) -> None:
    watched.take(d=bills(1_000, lines=[]))
    (item,) = watched.waiting()
    counterfoil("loads", "accept", item["number"])
    assert [item["state"] for item in watched.waiting()] == ["accepted"]
    Path(item["path"]).unlink()
    watched.again().take()
    assert [(item["decision"], item["state"]) for item in watched.waiting()] == [("accepted", "gone")]
    for verb in ("accept", "discard"):
        assert "use resolve" in counterfoil("loads", verb, item["number"], status=1).stderr
    counterfoil("loads", "resolve", item["number"])
    assert watched.waiting() == []


def test_an_accepted_file_that_is_back_is_loaded(watched: Deliveries, counterfoil: Command) -> None:
    watched.take(d=bills(1_000, lines=[]))
    (item,) = watched.waiting()
    counterfoil("loads", "accept", item["number"])
    away = watched.kept.rename(watched.kept.with_name("away"))
    watched.again().take()
    assert [item["state"] for item in watched.waiting()] == ["gone"]
    shutil.rmtree(watched.kept)
    away.rename(watched.kept)
    watched.take()
    assert (watched.waiting(), watched.names("held"), watched.bills()) == ([], [], 4 * NUMBER)


def test_a_discarded_file_that_cannot_be_moved_is_a_warning_until_it_can(
    watched: Deliveries, counterfoil: Command
) -> None:
    watched.take(d=bills(1_000, lines=[]))
    counterfoil("loads", "discard", "d.ndjson")
    quarantine = watched.kept / "quarantine"
    quarantine.write_bytes(b"")
    watched.take()
    watched.report()
    assert [found["code"] for found in counterfoil.findings("folders")] == ["folder_stuck"]
    quarantine.unlink()
    watched.take()
    watched.report()
    assert [found["code"] for found in counterfoil.findings("folders")] == ["folder_watched"]
    assert watched.names("quarantine") == ["d.ndjson"]


@pytest.mark.parametrize("content", [b"", b" \n\n", gzip.compress(b"")], ids=["nothing", "blank", "gzip"])
def test_an_empty_delivery_is_quarantined(watched: Deliveries, content: bytes) -> None:
    name = "d.ndjson.gz" if content.strip() else "d.ndjson"
    watched.deliver(name, content)
    watched.take(e=b"[]", f=bills(1_000))
    assert [(item["kind"], item["source"]) for item in watched.waiting()] == [("quarantined", name)]
    assert watched.names("done")[-2:] == ["e.ndjson", "f.ndjson"]


def test_each_of_two_deliveries_of_the_same_name_is_decided_alone(watched: Deliveries, counterfoil: Command) -> None:
    watched.take(d=bills(1_000, lines=[]))
    watched.take(d=bills(2_000, lines=[]))
    first, second = watched.waiting()
    assert "Nothing was changed." in counterfoil("loads", "accept", "d.ndjson", status=1).stderr
    assert counterfoil.json("loads", "accept", first["number"]) == {"accepted": [first["number"]]}
    watched.take()
    assert ([item["number"] for item in watched.waiting()], watched.names("held")) == ([second["number"]], ["d.ndjson"])
    counterfoil("loads", "accept", second["number"])
    watched.take()
    assert (watched.waiting(), watched.names("held"), watched.bills()) == ([], [], 5 * NUMBER)


def test_a_corrected_delivery_of_the_same_name_leaves_the_held_one_open(watched: Deliveries) -> None:
    watched.take(d=bills(1_000, lines=[]))
    watched.take(d=bills(1_000))
    assert ([item["source"] for item in watched.waiting()], watched.names("held")) == (["d.ndjson"], ["d.ndjson"])


def test_a_held_file_that_is_loaded_by_hand_is_moved_away(watched: Deliveries, counterfoil: Command) -> None:
    watched.take(d=bills(1_000, lines=[]))
    counterfoil("load", "--accept-change", watched.waiting()[0]["path"])
    assert watched.waiting() == []
    watched.take()
    assert (watched.names("held"), "d.ndjson" in watched.names("done")) == ([], True)


def test_a_held_file_that_was_changed_is_not_loaded(watched: Deliveries, counterfoil: Command) -> None:
    watched.take(d=bills(1_000, lines=[]))
    (item,) = watched.waiting()
    counterfoil("loads", "accept", item["number"])
    with Path(item["path"]).open("ab") as file:
        file.write(bills(2_000, 1))
    watched.take()
    (refused,) = watched.waiting()
    assert (watched.bills(), refused["decision"], watched.names("held")) == (3 * NUMBER, None, ["d.ndjson"])
    assert refused["reason"] != item["reason"]


def test_a_held_file_that_was_changed_is_not_accepted(watched: Deliveries, counterfoil: Command) -> None:
    watched.take(d=bills(1_000, lines=[]))
    (item,) = watched.waiting()
    with Path(item["path"]).open("ab") as file:
        file.write(bills(2_000, 1))
    counterfoil("loads", "accept", item["number"], status=1)
    assert watched.waiting() == [item]


def test_an_accepted_file_is_loaded_by_a_watcher_on_a_machine_with_another_name(
    watched: Deliveries, counterfoil: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.take(d=bills(1_000, lines=[]))
    counterfoil("loads", "accept", watched.waiting()[0]["number"])
    monkeypatch.setattr("socket.gethostname", lambda: "another-pod")
    again = watched.again()
    assert len(again.waiting()) == 1
    again.take()
    assert (again.waiting(), again.bills()) == ([], 4 * NUMBER)


def test_a_file_whose_watcher_was_killed_before_it_was_moved_is_moved_later(
    watched: Deliveries, counterfoil: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.take(d=bills(1_000, lines=[]))
    counterfoil("loads", "accept", "d.ndjson")
    with monkeypatch.context() as patched:
        patched.setattr(Spool, "finish", crash)
        with pytest.raises(KeyboardInterrupt):
            watched.take()
    assert (watched.waiting(), watched.names("held")) == ([], ["d.ndjson"])
    again = watched.again()
    again.take()
    assert (again.waiting(), again.names("held"), again.bills()) == ([], [], 4 * NUMBER)


def test_items_stay_open_while_the_folder_of_kept_files_is_away(watched: Deliveries, counterfoil: Command) -> None:
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


def test_a_delivery_that_cannot_be_moved_is_a_warning_until_it_can(watched: Deliveries, counterfoil: Command) -> None:
    (watched.kept / "held").write_bytes(b"")
    watched.take(d=bills(1_000, lines=[]), e=bills(2_000))
    watched.report()
    (found,) = counterfoil.findings("folders")
    assert (found["status"], found["code"]) == ("warn", "folder_stuck")
    assert "d.ndjson" in found["message"]
    (watched.folder / "d.ndjson").unlink()
    watched.report()
    assert [found["code"] for found in counterfoil.findings("folders")] == ["folder_watched"]


def test_an_accepted_file_that_turns_out_to_be_damaged_is_quarantined(
    watched: Deliveries, counterfoil: Command
) -> None:
    # The first part of the archive is whole, so its bills are read.
    parts = gzip.compress(bills(1_000, lines=[])) + gzip.compress(bills(2_000))[:-4]
    watched.deliver("d.ndjson.gz", parts)
    watched.take()
    assert [item["kind"] for item in watched.waiting()] == ["held"]
    counterfoil("loads", "accept", "d.ndjson.gz")
    watched.take()
    (item,) = watched.waiting()
    assert (item["kind"], item["decision"], Path(item["path"]).exists()) == ("quarantined", None, True)
    counterfoil("loads", "resolve", item["number"])
    assert watched.waiting() == []


def test_only_the_file_that_differs_is_held(watched: Deliveries) -> None:
    watched.take(d=bills(1_000), e=bills(2_000, lines=[]), f=bills(3_000))
    assert (watched.names("held"), watched.bills()) == (["e.ndjson"], 5 * NUMBER)
    assert [item["load"] for item in watched.waiting()] == [None]


def test_small_files_that_differ_only_together_are_held_together(watched: Deliveries) -> None:
    parts = {name: bills(1_000 + 100 * place, 90, lines=[]) for place, name in enumerate("def")}
    watched.take(**parts)
    assert (watched.names("held"), watched.bills()) == (["d.ndjson", "e.ndjson", "f.ndjson"], 3 * NUMBER)


def test_bills_that_would_replace_others_are_held(watched: Deliveries) -> None:
    watched.take(d=bills(0).replace(b"Soup", b"Cake").replace(b'"net": 1', b'"net": 7'))
    (item,) = watched.waiting()
    assert (item["kind"], watched.bills()) == ("held", 3 * NUMBER)
    assert "would replace" in item["reason"]


def test_a_file_is_held_before_a_crash_and_found_at_the_next_start(
    watched: Deliveries, counterfoil: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(StoreLoader, "report", crash)
        with pytest.raises(KeyboardInterrupt):
            watched.take(d=bills(1_000, lines=[]))
    assert watched.waiting() == []
    watched.again()
    assert [item["kind"] for item in watched.waiting()] == ["held"]


@pytest.mark.parametrize("verb", ["resolve", "accept", "discard"])
def test_a_verb_that_does_not_fit_the_item_changes_nothing(
    watched: Deliveries, counterfoil: Command, verb: str
) -> None:
    watched.take(d=bills(1_000, lines=[]) if verb == "resolve" else b"nonsense\n")
    (item,) = watched.waiting()
    assert "Nothing was changed." in counterfoil("loads", verb, item["number"], status=1).stderr
    assert watched.waiting() == [item]
