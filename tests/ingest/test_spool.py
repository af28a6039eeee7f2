"""A watched folder hands over only files that nobody is writing any more."""

import fcntl
import os
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path

import pytest

from counterfoil.ingest import spool
from counterfoil.ingest.spool import COPY_BYTES, SETTLE_MS, STUCK_MS, WAITING_MS, Spool

NOW = 1_000_000


def delivered(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(b"{}\n")
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return delivered(tmp_path, "bills.ndjson")


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spool:
    """A spool on a file system where the system refuses a lease on a file that is open for writing."""
    monkeypatch.setattr(spool, "_file_system", lambda _: "ext4")
    return Spool(tmp_path)


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spool:
    """A spool on a file system where a lease does not say who writes a file."""
    monkeypatch.setattr(spool, "_file_system", lambda _: "nfs4")
    return Spool(tmp_path)


def waiting(spool: Spool, now: int) -> list[str]:
    """Return the names of the files that the spool hands over."""
    found = spool.deliveries(now)
    for delivery in found:
        delivery.close()
    return [delivery.name for delivery in found]


def test_a_file_that_is_open_for_writing_is_left_alone_until_it_is_closed(local: Spool, path: Path) -> None:
    with path.open("ab"):
        assert waiting(local, NOW) == []
        assert waiting(local, NOW + SETTLE_MS) == []
    assert waiting(local, NOW + SETTLE_MS) == [path.name]


def test_a_local_file_that_others_only_read_is_complete(local: Spool, path: Path) -> None:
    with path.open("rb"):
        assert waiting(local, NOW) == [path.name]


def test_a_large_file_is_held_in_steps_between_which_the_watcher_can_be_stopped(local: Spool, path: Path) -> None:
    path.write_bytes(bytes(3 * COPY_BYTES))
    calls: list[None] = []
    local.on_read = lambda: calls.append(None)
    (delivery,) = local.deliveries(NOW)
    with closing(delivery):
        item = local.keep("held", delivery, "bills.ndjson was not loaded.")
    assert (item.digest, len(calls)) == (sha256(bytes(3 * COPY_BYTES)).hexdigest(), 3)


@pytest.mark.parametrize("age_sec", [-3600, 0, 3600], ids=["clock ahead", "same clock", "clock behind"])
def test_a_remote_file_is_complete_once_it_has_not_changed_whatever_the_clock_of_its_server(
    remote: Spool, path: Path, age_sec: int
) -> None:
    os.utime(path, (0, path.stat().st_mtime - age_sec))
    assert waiting(remote, NOW) == []
    path.write_bytes(b"{}\n{}\n")
    assert waiting(remote, NOW + SETTLE_MS) == []
    assert waiting(remote, NOW + 2 * SETTLE_MS - 1) == []
    assert waiting(remote, NOW + 2 * SETTLE_MS) == [path.name]


def test_a_remote_file_is_complete_even_if_the_system_refuses_a_lease(remote: Spool, path: Path) -> None:
    with path.open("ab"):
        waiting(remote, NOW)
        assert waiting(remote, NOW + SETTLE_MS) == [path.name]


def test_a_file_of_another_user_is_complete_once_it_has_not_changed(
    local: Spool, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("the file belongs to another user")

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    assert waiting(local, NOW) == []
    assert waiting(local, NOW + SETTLE_MS) == [path.name]


def test_a_file_that_stays_open_without_changes_is_stuck(local: Spool, path: Path) -> None:
    with path.open("ab") as file:
        waiting(local, NOW)
        waiting(local, NOW + STUCK_MS - 1)
        assert local.stuck == set()
        waiting(local, NOW + STUCK_MS)
        assert local.stuck == {path.name}
        file.write(b"{}\n")
        file.flush()
        waiting(local, NOW + STUCK_MS)
        assert local.stuck == set()


def test_unfinished_files_and_folders_with_files_are_named_after_an_hour(local: Spool, tmp_path: Path) -> None:
    names = [".bills.ndjson.x7", "bills.ndjson.part", "c.tmp", "monday"]
    for name in ("done", "empty", "monday", ".hidden"):
        (tmp_path / name).mkdir()
    delivered(tmp_path / "monday", "bills.ndjson")
    delivered(tmp_path / ".hidden", "state")
    for name in (*names[:3], ".DS_Store"):
        delivered(tmp_path, name)
    assert (waiting(local, NOW), waiting(local, NOW + WAITING_MS - 1), local.waiting) == ([], [], [])
    assert (waiting(local, NOW + WAITING_MS), local.waiting) == ([], names)
    delivered(tmp_path, names[1]).write_bytes(b"{}\n{}\n")
    assert (waiting(local, NOW + WAITING_MS), local.waiting) == ([], [names[0], *names[2:]])


def test_the_file_system_of_a_folder_is_that_of_its_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = tmp_path.stat().st_dev
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        f"22 1 0:0 / /other rw - ext4 /dev/a rw\n"
        f"23 1 {os.major(device)}:{os.minor(device)} / /here rw,noatime shared:1 - cifs //server/share rw\n"
    )
    monkeypatch.setattr(spool, "MOUNTS", mounts)
    assert spool._file_system(tmp_path) == "cifs"
    monkeypatch.setattr(spool, "MOUNTS", tmp_path / "missing")
    assert spool._file_system(tmp_path) is None


def test_entries_that_cannot_be_loaded_hold_up_no_file_whatever_their_names(local: Spool, tmp_path: Path) -> None:
    path = delivered(tmp_path, "z.ndjson")
    for number in range(spool.MAX_FILES + 1):
        os.mkfifo(tmp_path / f"a{number}.ndjson")
    assert waiting(local, NOW)[0] == path.name


def test_what_is_read_is_noted_for_the_next_watcher_until_it_has_been_read(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff\n\x1b.csv")
    (tmp_path / name).write_bytes(b"x")
    watcher = Spool(tmp_path)
    with watcher.locked(), closing(watcher.delivery(name)) as delivery:
        with watcher.noting():
            watcher.note(delivery, is_export=True)
        assert not watcher.is_deadly(delivery)
    with watcher.locked(), closing(watcher.delivery(name)) as delivery:
        # A watcher that was stopped in order leaves no note.
        assert not watcher.is_deadly(delivery)
        with suppress(ZeroDivisionError), watcher.noting():
            watcher.note(delivery, is_export=True)
            raise ZeroDivisionError
    following = Spool(tmp_path)
    with following.locked(), closing(following.delivery(name)) as delivery:
        assert following.is_deadly(delivery)
        (tmp_path / name).write_bytes(b"another file")
        with closing(following.delivery(name)) as changed:
            assert not following.is_deadly(changed)
