"""A delivery to a watched folder that differs sharply from earlier ones waits until the operator has decided."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.command import SHOPS, Command
from counterfoil.cli.load import StoreLoader
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
        self._loader.heartbeat(spool=self._spool)

    def take(self, **files: bytes) -> None:
        """Deliver files and run a round of the watcher: what was decided, then what was delivered."""
        for name, content in files.items():
            (self.folder / f"{name}.ndjson").write_bytes(content)
        if self._spool.holds_files():
            self._watch.carry_out(self._loader.decided())
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


def test_a_held_file_that_is_removed_is_no_longer_a_warning(watched: Watched) -> None:
    watched.take(d=bills(1_000, lines=[]))
    Path(watched.waiting()[0]["path"]).unlink()
    assert watched.waiting() == []


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
