"""A file of the store is replaced with an older copy, and clients must not keep a wrong copy without noticing."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import combinations
from pathlib import Path

import pytest

from counterfoil import bootstrap
from counterfoil.backends.sqlite import files, positions
from counterfoil.backends.sqlite.files import WAIT_SEC
from counterfoil.backends.sqlite.schema import NAMES, Name
from counterfoil.ports import StoreUnavailable
from records import EVER, Record, bill, bills, branch, removal
from running_service import RunningService
from sync.feed_readers import FeedReader
from sync.in_process import InProcessService, StoreParts

COMBINATIONS = [names for size in (1, 2, 3) for names in combinations(NAMES, size)]


def backed_up(service: RunningService, folder: Path) -> None:
    bootstrap.back_up(service.settings, folder, with_secret=False, clock=service.clock)


def copied(service: RunningService, folder: Path) -> None:
    """Copy the databases as any other program would."""
    folder.mkdir()
    for name in NAMES:
        file = f"{name}.sqlite3"
        with (
            closing(sqlite3.connect(service.settings.store / file)) as source,
            closing(sqlite3.connect(folder / file)) as target,
        ):
            source.backup(target)


class World:
    """A service, its shop with bills, and a reader of the feed that has read everything so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.service = InProcessService(folder, StoreParts())
        self.of = branch()
        self.bills = bills(self.of, 6)
        self.service.load(self.of, *self.bills)
        self.key = self.service.key(franchise=self.of["franchiseId"], per_min=100_000, per_day=100_000)
        self.reader = FeedReader(self.service, self.key, limit=2)
        self.service.tick(2)
        self.follow_feed()

    def follow_feed(self) -> int:
        """Make a pass; return how often a mark was refused."""
        before = self.reader.expired_marks
        self.reader.make_pass()
        return self.reader.expired_marks - before

    def copy_and_change(self, copy: Callable[[RunningService, Path], None] = copied) -> Path:
        """Copy the files, and then add, change and remove bills; return the folder with the older files."""
        older = self.folder / "older"
        copy(self.service, older)
        self.change()
        return older

    def change(self) -> None:
        """Add, change and remove bills."""
        self.service.load(bill(self.of), self.bills[0] | {"receiptNumber": "R-9"}, removal(self.bills[1]))
        # The position of a file is known to all other files after a minute and a second.
        self.service.tick(61)
        self.service.tick(2)

    def replace(self, names: tuple[Name, ...], source: Path) -> None:
        """Stop the service, replace some of its files, and start it again."""
        self.stop_and_replace(names, source)
        self.start()
        self.service.tick(2)

    def start(self) -> None:
        self.service = self.reader.service = InProcessService(self.folder, StoreParts(), clock=self.service.clock)

    def stop_and_replace(self, names: tuple[Name, ...], source: Path) -> None:
        self.service.close()
        store = self.service.settings.store
        for name in names:
            for file in store.glob(f"{name}.sqlite3*"):
                file.unlink()
            (store / f"{name}.sqlite3").write_bytes((source / f"{name}.sqlite3").read_bytes())

    def has_all_bills(self) -> bool:
        """Return whether the reader's copy has exactly the bills that a new reader gets."""
        fresh = FeedReader(self.service, self.key, limit=2)
        fresh.make_pass()
        return self.reader.state.copied.bills == fresh.state.copied.bills

    def audited(self) -> list[str]:
        return [
            entry.detail
            for entry in bootstrap.store(self.service.settings).reads().audit(10)
            if entry.actor.via == "automatic"
        ]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.service.close()


@pytest.mark.parametrize("copy", [backed_up, copied])
@pytest.mark.parametrize("names", COMBINATIONS, ids="+".join)
def test_no_copy_stays_wrong_after_some_files_have_gone_back(
    world: World, names: tuple[Name, ...], copy: Callable[[RunningService, Path], None]
) -> None:
    if copy is copied and len(names) == len(NAMES):
        pytest.skip("nothing in the store shows that all of its files were replaced with copies of the same moment")
    older = world.copy_and_change(copy)
    world.follow_feed()
    world.replace(names, older)
    assert world.follow_feed() == (1 if {"books", "usage"} & set(names) else 0)
    assert world.has_all_bills()
    assert world.follow_feed() == 0
    assert world.audited() == [f"an older copy of {' and '.join(f'{name}.sqlite3' for name in names)}"]


def test_a_pass_that_was_interrupted_before_the_replacement_is_not_continued(world: World) -> None:
    """The mark is older than the copy, but the client has already stored changes that the copy does not contain."""
    older = world.copy_and_change()
    world.reader.step("half stored")
    world.replace(("books",), older)
    assert world.follow_feed() == 1
    assert world.has_all_bills()


@pytest.mark.parametrize("name", ["books", "usage"])
def test_no_cursor_that_was_handed_out_before_stands_for_another_position(world: World, name: Name) -> None:
    older = world.copy_and_change()

    def page(cursor: str | None = None) -> Record:
        query = {"shopId": world.of["id"], "updatedSince": EVER, "limit": 2} | ({"cursor": cursor} if cursor else {})
        return world.service.ask(world.key, "transactions", **query)

    held = [page()["nextCursor"]]
    held.append(page(held[0])["nextCursor"])
    world.replace((name,), older)
    # Bills whose IDs were handed out as cursors move to the end of the list, and other clients read the list.
    world.service.load(*(one | {"receiptNumber": "R-3"} for one in world.bills))
    world.service.tick(2)
    cursor = page()["nextCursor"]
    while cursor:
        assert cursor not in held
        cursor = page(cursor)["nextCursor"]
    assert [page(one)["error"] for one in held] == ["bad_cursor", "bad_cursor"]


def test_a_load_stamps_above_every_reported_time_even_if_the_clock_is_behind(world: World) -> None:
    older = world.copy_and_change()
    mark = world.service.ask(world.key, "shops")["serverTime"]
    world.service.clock.step(-3600)
    world.replace(("books",), older)
    world.service.load(*(again := bills(world.of, 2)))
    found = world.service.ask(world.key, "transactions", shopId=world.of["id"], updatedSince=mark)["data"]
    assert {one["id"] for one in found} == {one["id"] for one in again}


def test_an_interrupted_correction_is_made_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    older = world.copy_and_change()
    world.follow_feed()
    with monkeypatch.context() as patched:
        patched.setattr("counterfoil.backends.sqlite.backup.append", _fail)
        with pytest.raises(StoreUnavailable, match="killed"):
            world.replace(("usage",), older)
    world.start()
    assert world.audited() == ["an older copy of usage.sqlite3"]
    assert world.follow_feed() == 1


def _fail(*_: object) -> None:
    raise StoreUnavailable("killed")


def test_a_store_is_not_moved_to_postgresql_with_marks_that_are_no_longer_valid(world: World) -> None:
    older = world.copy_and_change(backed_up)
    world.follow_feed()
    world.stop_and_replace(("books",), older)
    bootstrap.move_source(world.service.settings.store, world.service.clock).close()
    world.start()
    assert world.audited() == ["an older copy of books.sqlite3"]
    assert world.follow_feed() == 1


def test_a_file_that_was_lost_and_created_again_counts_as_an_older_one(world: World) -> None:
    world.change()
    world.follow_feed()
    world.service.close()
    for file in world.service.settings.store.glob("usage.sqlite3*"):
        file.unlink()
    files.recreate(world.service.settings.store, "usage")
    world.start()
    assert world.audited() == ["an older copy of usage.sqlite3"]


def test_marks_stay_valid_if_no_file_was_replaced(world: World) -> None:
    for _ in range(3):
        world.change()
        world.follow_feed()
        world.replace((), world.folder)
        assert world.follow_feed() == 0
        # Loads advance the horizon while no service runs.
        world.service.load(bill(world.of))
    world.service.clock.step(-3600)
    world.change()
    world.replace((), world.folder)
    assert world.follow_feed() == 0
    assert world.audited() == []


def test_a_file_that_is_replaced_while_the_service_runs_does_not_get_the_new_position(world: World) -> None:
    older = world.copy_and_change()
    store = world.service.settings.store
    for name in NAMES[1:]:
        for file in store.glob(f"{name}.sqlite3*"):
            file.unlink()
        (older / f"{name}.sqlite3").rename(store / f"{name}.sqlite3")
    world.change()
    assert positions.older_files(store) == ["keys", "usage"]


def test_a_locked_file_does_not_delay_the_horizon(world: World) -> None:
    with closing(sqlite3.connect(world.service.settings.store / "keys.sqlite3", isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        world.service.tick(61)
        assert time.monotonic() - began < WAIT_SEC["keys"]
        holder.execute("ROLLBACK")
    assert world.audited() == []
