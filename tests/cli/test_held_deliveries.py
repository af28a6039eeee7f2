"""A delivery to a watched folder that differs sharply from earlier ones waits until the operator has decided."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.command import SHOPS, Command
from counterfoil.cli.load import StoreLoader
from counterfoil.cli.terminal import message
from counterfoil.ingest.spool import Spool
from counterfoil.ingest.watching import FolderWatch
from counterfoil.machine.process import SignalSafeEvent
from counterfoil.settings import load

NUMBER = 250
SHOP_LINES = b"".join(shop + b"\n" for shop in SHOPS)


def bills(first: int, number: int = NUMBER, **fields: Any) -> bytes:
    """Return bills with items and amounts; `fields` are added to every tenth one, or replace its fields."""
    found = []
    for place in range(first, first + number):
        record = {"kind": "bill", "id": f"b_{place}", "shopId": "sh_1", "closedAt": 1_760_000_000 + place}
        record |= {"lines": [{"name": "Soup", "qty": 1}], "amounts": {"net": 1}}
        found.append(json.dumps(record | fields if place % 10 == 0 else record).encode() + b"\n")
    return b"".join(found)


class Watched:
    """A watched folder and a watcher in this process."""

    def __init__(self, folder: Path, counterfoil: Command, kept: Path | None = None) -> None:
        self.folder, self.kept, self._counterfoil = folder, kept or folder, counterfoil
        settings = load({"store": str(counterfoil.store)}, {})
        self.kept.mkdir(exist_ok=True)
        self._spool = Spool(folder, kept)
        self._loader = StoreLoader(settings, folder, SignalSafeEvent(), as_json=True)
        self._watch = FolderWatch(self._spool, self._loader, lambda _: None, self._loader.steady_ms)
        self._loader.problem = self._watch.problem
        self._loader.heartbeat(spool=self._spool)
        self.report = self._loader.heartbeat

    def take(self, **files: bytes) -> None:
        """Deliver files and run a round of the watcher: what was decided, then what was delivered."""
        for name, content in files.items():
            (self.folder / f"{name}.ndjson").write_bytes(content)
        self._watch.carry_out()
        self._watch.take_files()

    def names(self, place: str) -> list[str]:
        """Return the delivered names of the files in `done`, `held` or `quarantine`."""
        return sorted(path.name.split("-", 2)[2] for path in (self.kept / place).glob("*.ndjson"))

    def waiting(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._counterfoil.json("loads", "open")
        return found

    def bills(self) -> int:
        changed: list[int] = [load["changed"] for load in self._counterfoil.json("loads")]
        return sum(changed) - len(SHOPS)


@pytest.fixture
def watched(counterfoil: Command, tmp_path: Path) -> Watched:
    """A folder to which three ordinary deliveries were made."""
    folder = tmp_path / "incoming"
    folder.mkdir()
    found = Watched(folder, counterfoil, tmp_path / "kept")
    found.take(a=SHOP_LINES + bills(0))
    found.take(b=bills(300))
    found.take(c=bills(600))
    assert (found.bills(), found.waiting()) == (3 * NUMBER, [])
    return found


def test_a_sudden_change_is_held_and_nothing_of_it_is_loaded(watched: Watched, counterfoil: Command) -> None:
    watched.take(d=bills(1_000, lines=[]))
    assert (watched.bills(), watched.names("held"), watched.names("done")) == (
        3 * NUMBER,
        ["d.ndjson"],
        ["a.ndjson", "b.ndjson", "c.ndjson"],
    )
    (item,) = watched.waiting()
    assert (item["kind"], item["source"], item["decision"]) == ("held", "d.ndjson", None)
    assert "10.0% of bills have no items" in item["reason"]
    (found,) = [check for check in counterfoil.json("doctor")["checks"] if check["check"] == "items"]
    assert found["code"] == "items_held"
    watched.take()
    assert len(watched.waiting()) == 1


def test_an_accepted_delivery_is_loaded_and_normal_from_then_on(watched: Watched, counterfoil: Command) -> None:
    watched.take(d=bills(1_000, lines=[]))
    assert counterfoil.json("loads", "accept", "d.ndjson") == {"accepted": [watched.waiting()[0]["number"]]}
    assert watched.bills() == 3 * NUMBER
    watched.take()
    assert (watched.bills(), watched.names("held"), watched.waiting()) == (4 * NUMBER, [], [])
    assert "d.ndjson" in watched.names("done")
    watched.take(e=bills(2_000, lines=[]))
    assert watched.bills() == 5 * NUMBER
    assert next(entry["act"] for entry in counterfoil.json("audit")) == "delivery_accepted"


def test_a_discarded_delivery_is_quarantined_and_no_longer_a_warning(watched: Watched, counterfoil: Command) -> None:
    watched.take(d=bills(1_000, lines=[]))
    counterfoil("loads", "discard", watched.waiting()[0]["number"])
    watched.take()
    assert (watched.bills(), watched.names("held"), watched.names("quarantine")) == (3 * NUMBER, [], ["d.ndjson"])
    assert watched.waiting() == []
    # A watcher that starts again knows this file.
    Watched(watched.folder, counterfoil, watched.kept)
    assert watched.waiting() == []


def test_a_held_file_that_is_gone_stays_a_warning_that_says_so_until_it_is_resolved(
    watched: Watched, counterfoil: Command
) -> None:
    watched.take(d=bills(1_000, lines=[]))
    (item,) = watched.waiting()
    counterfoil("loads", "accept", item["number"])
    assert [item["state"] for item in watched.waiting()] == ["accepted"]
    Path(item["path"]).unlink()
    Watched(watched.folder, counterfoil, watched.kept).take()
    assert [(item["decision"], item["state"]) for item in watched.waiting()] == [("accepted", "gone")]
    for verb in ("accept", "discard"):
        assert "use resolve" in counterfoil("loads", verb, item["number"], status=1).stderr
    counterfoil("loads", "resolve", item["number"])
    assert watched.waiting() == []


def test_an_accepted_file_that_is_back_is_loaded(watched: Watched, counterfoil: Command) -> None:
    watched.take(d=bills(1_000, lines=[]))
    (item,) = watched.waiting()
    counterfoil("loads", "accept", item["number"])
    away = watched.kept.rename(watched.kept.with_name("away"))
    Watched(watched.folder, counterfoil, watched.kept).take()
    assert [item["state"] for item in watched.waiting()] == ["gone"]
    shutil.rmtree(watched.kept)
    away.rename(watched.kept)
    watched.take()
    assert (watched.waiting(), watched.names("held"), watched.bills()) == ([], [], 4 * NUMBER)


def test_a_discarded_file_that_cannot_be_moved_is_a_warning_until_it_can(
    watched: Watched, counterfoil: Command
) -> None:
    watched.take(d=bills(1_000, lines=[]))
    counterfoil("loads", "discard", "d.ndjson")
    quarantine = watched.kept / "quarantine"
    quarantine.write_bytes(b"")
    watched.take()
    watched.report()
    assert folder_finding(counterfoil) == "folder_stuck"
    quarantine.unlink()
    watched.take()
    watched.report()
    assert (folder_finding(counterfoil), watched.names("quarantine")) == ("folder_watched", ["d.ndjson"])


@pytest.mark.parametrize("content", [b"", b" \n\n", gzip.compress(b"")], ids=["nothing", "blank", "gzip"])
def test_an_empty_delivery_is_quarantined(watched: Watched, content: bytes) -> None:
    name = "d.ndjson.gz" if content.strip() else "d.ndjson"
    (watched.folder / name).write_bytes(content)
    watched.take(e=b"[]", f=bills(1_000))
    assert [(item["kind"], item["source"]) for item in watched.waiting()] == [("quarantined", name)]
    assert watched.names("done")[-2:] == ["e.ndjson", "f.ndjson"]


def folder_finding(counterfoil: Command) -> str:
    (found,) = [check for check in counterfoil.json("doctor")["checks"] if check["check"] == "folders"]
    return str(found["code"])


def test_each_of_two_deliveries_of_the_same_name_is_decided_alone(watched: Watched, counterfoil: Command) -> None:
    watched.take(d=bills(1_000, lines=[]))
    watched.take(d=bills(2_000, lines=[]))
    first, second = watched.waiting()
    assert "Nothing was changed." in counterfoil("loads", "accept", "d.ndjson", status=1).stderr
    counterfoil("loads", "accept", first["number"])
    watched.take()
    assert ([item["number"] for item in watched.waiting()], watched.names("held")) == ([second["number"]], ["d.ndjson"])
    counterfoil("loads", "accept", second["number"])
    watched.take()
    assert (watched.waiting(), watched.names("held"), watched.bills()) == ([], [], 5 * NUMBER)


def test_a_corrected_delivery_of_the_same_name_leaves_the_held_one_open(watched: Watched) -> None:
    watched.take(d=bills(1_000, lines=[]))
    watched.take(d=bills(1_000))
    assert ([item["source"] for item in watched.waiting()], watched.names("held")) == (["d.ndjson"], ["d.ndjson"])


def test_a_held_file_that_is_loaded_by_hand_is_moved_away(watched: Watched, counterfoil: Command) -> None:
    watched.take(d=bills(1_000, lines=[]))
    counterfoil("load", "--accept-change", watched.waiting()[0]["path"])
    assert watched.waiting() == []
    watched.take()
    assert (watched.names("held"), "d.ndjson" in watched.names("done")) == ([], True)


def test_a_held_file_that_was_changed_is_not_loaded(watched: Watched, counterfoil: Command) -> None:
    watched.take(d=bills(1_000, lines=[]))
    (item,) = watched.waiting()
    counterfoil("loads", "accept", item["number"])
    with Path(item["path"]).open("ab") as file:
        file.write(bills(2_000, 1))
    watched.take()
    (refused,) = watched.waiting()
    assert (watched.bills(), refused["decision"], watched.names("held")) == (3 * NUMBER, None, ["d.ndjson"])
    assert refused["reason"] != item["reason"]


def test_a_held_file_that_was_changed_is_not_accepted(watched: Watched, counterfoil: Command) -> None:
    watched.take(d=bills(1_000, lines=[]))
    (item,) = watched.waiting()
    with Path(item["path"]).open("ab") as file:
        file.write(bills(2_000, 1))
    counterfoil("loads", "accept", item["number"], status=1)
    assert watched.waiting() == [item]


def test_accepting_says_that_the_change_counts_as_usual_from_then_on(watched: Watched, counterfoil: Command) -> None:
    watched.take(d=bills(1_000, lines=[]))
    accepted = counterfoil("loads", "accept", "d.ndjson")
    assert accepted.stdout == f"Accepted item {watched.waiting()[0]['number']}: d.ndjson, held.\n"
    assert message("usual_from_now") in accepted.stderr


def test_an_accepted_file_is_loaded_by_a_watcher_on_a_machine_with_another_name(
    watched: Watched, counterfoil: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.take(d=bills(1_000, lines=[]))
    counterfoil("loads", "accept", watched.waiting()[0]["number"])
    monkeypatch.setattr("socket.gethostname", lambda: "another-pod")
    again = Watched(watched.folder, counterfoil, watched.kept)
    assert len(again.waiting()) == 1
    again.take()
    assert (again.waiting(), again.bills()) == ([], 4 * NUMBER)


def test_a_file_whose_watcher_was_killed_before_it_was_moved_is_moved_later(
    watched: Watched, counterfoil: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    watched.take(d=bills(1_000, lines=[]))
    counterfoil("loads", "accept", "d.ndjson")
    with monkeypatch.context() as patched:
        patched.setattr(Spool, "finish", crash)
        with pytest.raises(KeyboardInterrupt):
            watched.take()
    assert (watched.waiting(), watched.names("held")) == ([], ["d.ndjson"])
    again = Watched(watched.folder, counterfoil, watched.kept)
    again.take()
    assert (again.waiting(), again.names("held"), again.bills()) == ([], [], 4 * NUMBER)


def test_items_stay_open_while_the_folder_of_kept_files_is_away(watched: Watched, counterfoil: Command) -> None:
    watched.take(d=bills(1_000, lines=[]), e=b"nonsense")
    items = watched.waiting()
    away = watched.kept.rename(watched.kept.with_name("away"))
    again = Watched(watched.folder, counterfoil, watched.kept)
    again.take()
    assert [item["number"] for item in again.waiting()] == [item["number"] for item in items]
    shutil.rmtree(watched.kept)
    away.rename(watched.kept)
    Watched(watched.folder, counterfoil, watched.kept).take()
    assert again.waiting() == items


def test_a_delivery_that_cannot_be_moved_is_a_warning_until_it_can(watched: Watched, counterfoil: Command) -> None:
    held = watched.kept / "held"
    held.write_bytes(b"")
    watched.take(d=bills(1_000, lines=[]))
    watched.report()
    (found,) = [check for check in counterfoil.json("doctor")["checks"] if check["check"] == "folders"]
    assert (found["status"], found["code"]) == ("warn", "folder_stuck")
    assert "d.ndjson" in found["message"]
    (watched.folder / "d.ndjson").unlink()
    watched.report()
    (found,) = [check for check in counterfoil.json("doctor")["checks"] if check["check"] == "folders"]
    assert found["code"] == "folder_watched"


def test_an_accepted_file_that_turns_out_to_be_damaged_is_quarantined(watched: Watched, counterfoil: Command) -> None:
    # The first part of the archive is whole, so its bills are read.
    parts = gzip.compress(bills(1_000, lines=[])) + gzip.compress(bills(2_000))[:-4]
    (watched.folder / "d.ndjson.gz").write_bytes(parts)
    watched.take()
    assert [item["kind"] for item in watched.waiting()] == ["held"]
    counterfoil("loads", "accept", "d.ndjson.gz")
    watched.take()
    (item,) = watched.waiting()
    assert (item["kind"], item["decision"], Path(item["path"]).exists()) == ("quarantined", None, True)
    counterfoil("loads", "resolve", item["number"])
    assert watched.waiting() == []


def test_a_held_item_names_no_load(watched: Watched) -> None:
    watched.take(d=bills(1_000), e=bills(2_000, lines=[]))
    assert [item["load"] for item in watched.waiting()] == [None]


def test_only_the_file_that_differs_is_held(watched: Watched) -> None:
    watched.take(d=bills(1_000), e=bills(2_000, lines=[]), f=bills(3_000))
    assert (watched.names("held"), watched.bills()) == (["e.ndjson"], 5 * NUMBER)


def test_small_files_that_differ_only_together_are_held_together(watched: Watched) -> None:
    parts = {name: bills(1_000 + 100 * place, 90, lines=[]) for place, name in enumerate("def")}
    watched.take(**parts)
    assert (watched.names("held"), watched.bills()) == (["d.ndjson", "e.ndjson", "f.ndjson"], 3 * NUMBER)


def test_bills_that_would_replace_others_are_held(watched: Watched) -> None:
    watched.take(d=bills(0).replace(b"Soup", b"Cake").replace(b'"net": 1', b'"net": 7'))
    (item,) = watched.waiting()
    assert (item["kind"], watched.bills()) == ("held", 3 * NUMBER)
    assert "would replace" in item["reason"]


def test_a_file_is_held_before_a_crash_and_found_at_the_next_start(
    watched: Watched, counterfoil: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(StoreLoader, "report", crash)
        with pytest.raises(KeyboardInterrupt):
            watched.take(d=bills(1_000, lines=[]))
    assert watched.waiting() == []
    Watched(watched.folder, counterfoil, watched.kept)
    assert [item["kind"] for item in watched.waiting()] == ["held"]


@pytest.mark.parametrize("verb", ["resolve", "accept", "discard"])
def test_a_verb_that_does_not_fit_the_item_changes_nothing(watched: Watched, counterfoil: Command, verb: str) -> None:
    content: Callable[..., bytes] = bills
    watched.take(d=content(1_000, lines=[]) if verb == "resolve" else b"nonsense\n")
    (item,) = watched.waiting()
    assert "Nothing was changed." in counterfoil("loads", verb, item["number"], status=1).stderr
    assert watched.waiting() == [item]
