"""Tests for `counterfoil backup` and `counterfoil restore`."""

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from actors import OPERATOR
from cli.command import PYTHON, SHOPS, Command, run_sql
from counterfoil import bootstrap
from counterfoil.backends.sqlite.backup import rotating
from faults.http_clients import Repeating
from records import EVER, bills, shop
from running_service import RunningService


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "backups"


@pytest.fixture
def target(folder: Path) -> Path:
    return folder / "today"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Command:
    """A command on a store that does not exist yet."""
    return Command(tmp_path / "elsewhere")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir() if file.is_file()}


def test_a_backup_has_all_files_is_private_and_can_be_restored(
    loaded: Command, elsewhere: Command, target: Path
) -> None:
    made = loaded.json("backup", target)
    assert names(target) == ["backup.json", "books.sqlite3", "keys.sqlite3", "secret", "usage.sqlite3"]
    assert (modes(target), stat.S_IMODE(target.stat().st_mode)) == ({0o600}, 0o700)
    assert made["files"]["books"]["rows"]["shops"] == 2
    assert names(target.parent) == ["today"]

    text = elsewhere("restore", target).stdout
    assert "are active again: revoke them" in text
    assert (modes(elsewhere.store), stat.S_IMODE(elsewhere.store.stat().st_mode)) == ({0o600}, 0o700)
    assert [one["shopId"] for one in elsewhere.json("shops")] == [one["shopId"] for one in loaded.json("shops")]
    assert elsewhere.json("keys", "list") == loaded.json("keys", "list")
    assert (elsewhere.store / "secret").read_bytes() == (loaded.store / "secret").read_bytes()
    assert elsewhere.json("doctor")["healthy"]


def test_a_backup_is_never_overwritten(loaded: Command, target: Path) -> None:
    target.mkdir(parents=True)
    assert "never overwritten" in loaded("backup", target, status=1).stderr
    assert list(target.iterdir()) == []


def test_a_secret_from_the_environment_is_not_written_to_the_backup(
    counterfoil: Command, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERFOIL_SECRET", "a secret that lives in a manager, long enough")
    counterfoil("load", "-", stdin=SHOPS[0])
    assert "cannot be used without the deployment secret" in counterfoil("backup", target).stderr
    assert all(b"lives in a manager" not in file.read_bytes() for file in target.iterdir())


def test_a_backup_without_a_secret_is_restored_only_with_the_right_one(
    loaded: Command, elsewhere: Command, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded("backup", target, "--without-secret")
    assert "the deployment secret cannot be read" in elsewhere("restore", target, status=1).stderr
    monkeypatch.setenv("COUNTERFOIL_SECRET", "another secret, which is long enough too")
    assert "member tokens would change" in elsewhere("restore", target, status=1).stderr
    assert not elsewhere.store.exists()
    monkeypatch.setenv("COUNTERFOIL_SECRET", (loaded.store / "secret").read_text().strip())
    elsewhere("restore", target)


def test_a_failed_backup_leaves_nothing_behind(loaded: Command, target: Path) -> None:
    statement = "INSERT INTO cursors VALUES ('k', 'bills', 'changes 0', 'b', 'b', 1, 1, 1, 1 << 60, 1 << 60, 0)"
    run_sql(loaded.store, "usage", statement)
    assert "newer than the horizon" in loaded("backup", target, status=1).stderr
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize("file", ["books.sqlite3", "usage.sqlite3", "backup.json", "secret", "keys.sqlite3"])
def test_a_damaged_backup_is_refused_and_the_store_stays(loaded: Command, target: Path, file: str) -> None:
    loaded("backup", target)
    path = target / file
    content = path.read_bytes()
    # In the list of files, a byte of a hash: in the name of a table, it would do no harm.
    half = content.rindex(b"sha256") + 12 if file == "backup.json" else len(content) // 2
    path.unlink()
    loaded("restore", target, "--replace", "--yes", status=1)
    if file == "secret":  # Otherwise that of the store would be used.
        (loaded.store / file).unlink()
    for harmed in (content[:half], content[:half] + b"?" + content[half + 1 :]):
        path.write_bytes(harmed)
        loaded("restore", target, "--replace", "--yes", status=1)
    assert len(loaded.json("shops")) == 2
    assert not [name for name in names(loaded.store) if name.startswith(("replaced-", ".restore-"))]


def test_a_store_is_replaced_only_on_request_and_its_files_are_kept(loaded: Command, target: Path) -> None:
    loaded("backup", target)
    loaded("load", "-", stdin=json.dumps(shop(id="sh_3")).encode())
    assert "contains a store" in loaded("restore", target, status=1).stderr
    assert "needs --yes" in loaded("restore", target, "--replace", status=2).stderr
    done = loaded.json("restore", target, "--replace", "--yes")
    assert len(loaded.json("shops")) == 2
    assert run_sql(Path(done["previousFiles"]), "books", "SELECT count(*) FROM shops") == 3


def test_a_store_in_use_is_not_replaced(loaded: Command, target: Path) -> None:
    loaded("backup", target)
    script = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT count(*) FROM migrations')"
        ".fetchone(); print('open', flush=True); sys.stdin.read()"
    )
    for name in ("books", "keys", "usage"):
        words = [PYTHON[0], "-c", script, str(loaded.store / f"{name}.sqlite3")]
        other = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert other.stdout
        assert other.stdout.readline() == b"open\n"
        refused = loaded("restore", target, "--replace", "--yes", status=1)
        assert f"another process is using {name}.sqlite3" in refused.stderr
        other.communicate()
    loaded("restore", target, "--replace", "--yes")


def test_a_damaged_store_can_be_replaced(loaded: Command, target: Path) -> None:
    loaded("backup", target)
    (loaded.store / "usage.sqlite3").write_bytes(b"not a database" * 100)
    done = loaded.json("restore", target, "--replace", "--yes")
    assert done["unreadable"] == ["usage"]
    assert loaded.json("doctor")["healthy"]


@pytest.mark.parametrize("scheduled", [(), ("--at", "2999-01-01T00:00Z")])
def test_a_key_revoked_after_the_backup_stays_revoked(
    loaded: Command, target: Path, scheduled: tuple[str, ...]
) -> None:
    (key,) = loaded.json("keys", "list")
    loaded("backup", target)
    revoked = loaded.json("keys", "revoke", key["keyId"], "--yes", *scheduled)
    loaded("restore", target, "--replace", "--yes")
    assert loaded.json("keys", "show", key["keyId"]).items() >= revoked.items()


def test_a_backup_taken_during_loads_and_requests_is_consistent(tmp_path: Path) -> None:
    service = RunningService(tmp_path)
    one = shop()
    service.load(one, *bills(one, 40))
    key = service.key(shop=one["id"], per_min=100_000, per_day=100_000)

    def read() -> None:
        service.get_unchecked("transactions", key, shopId=one["id"], updatedSince=EVER, limit=10)

    def write() -> None:
        service.clock.advance(0.001)
        service.load(*bills(one, 5))

    assert service.url
    with closing(service), Repeating(read), Repeating(write):
        for number in range(5):
            bootstrap.back_up(service.settings, tmp_path / f"b{number}", with_secret=False, clock=service.clock)


def restarted(service: RunningService, target: Path) -> RunningService:
    """Replace the store with a backup and restart the service with the same clock."""
    service.close()
    bootstrap.restore(service.settings, target, OPERATOR, replace=True, clock=service.clock)
    return RunningService(service.folder, clock=service.clock)


@pytest.mark.parametrize("digits", [2, 20])
def test_no_cursor_handed_out_after_the_backup_is_mistaken_for_another_position(
    tmp_path: Path, target: Path, digits: int
) -> None:
    service = RunningService(tmp_path)
    one = shop()
    records = [record | {"id": f"{number:0{digits}}"} for number, record in enumerate(bills(one, 12))]
    service.load(one, *records)
    key = service.key(shop=one["id"])

    def page(cursor: str | None = None) -> dict[str, Any]:
        service.clock.advance(1)
        query: dict[str, Any] = {"shopId": one["id"], "updatedSince": EVER, "limit": 3}
        service.ledger.advance_horizon()
        query |= {"cursor": cursor} if cursor else {}
        return dict(service.get("transactions", key, **query).json())

    before = page()["nextCursor"]
    bootstrap.back_up(service.settings, target, with_secret=False, clock=service.clock)
    after = page(before)["nextCursor"]
    mark = page()["serverTime"]
    assert {before, after} <= {record["id"] for record in records}
    service = restarted(service, target)
    assert [page(cursor)["error"] for cursor in (before, after)] == ["bad_cursor", "bad_cursor"]

    # Bills whose IDs were handed out as cursors move to the end of the list, and the list is read again.
    service.load(*(record | {"receiptNumber": "R-2"} for record in records[:7]))
    read, given, cursor = [], [], None
    while True:
        answer = page(cursor)
        read += [row["id"] for row in answer["data"]]
        if (cursor := answer["nextCursor"]) is None:
            break
        given.append(cursor)
    assert sorted(read) == [record["id"] for record in records]
    assert not {record["id"] for record in records} & set(given)
    changed = service.get("transactions", key, shopId=one["id"], updatedSince=mark, limit=50).json()["data"]
    assert {row["id"] for row in changed} == {record["id"] for record in records[:7]}
    assert [page(held)["error"] for held in (before, after)] == ["bad_cursor", "bad_cursor"]
    service.close()


def test_after_97_days_cursors_are_row_ids_again(tmp_path: Path, target: Path) -> None:
    service = RunningService(tmp_path)
    one = shop()
    records = bills(one, 4)
    service.load(one, *records)
    key = service.key(shop=one["id"])
    bootstrap.back_up(service.settings, target, with_secret=False, clock=service.clock)
    service = restarted(service, target)
    query = {"shopId": one["id"], "updatedSince": EVER, "limit": 2}
    names = {record["id"] for record in records}

    def next_cursor() -> str:
        service.ledger.advance_horizon()
        return str(service.get("transactions", key, **query).json()["nextCursor"])

    assert next_cursor() not in names
    service.clock.advance(97 * 86_400 + 1)
    assert service.prune_cursors() >= 0
    assert service.prune_cursors() >= 0
    assert next_cursor() in names
    service.close()


def test_no_stamp_at_or_below_a_reported_horizon_is_used_again_even_if_the_clock_is_behind(
    tmp_path: Path, target: Path
) -> None:
    service = RunningService(tmp_path)
    one = shop()
    service.load(one, *bills(one, 2))
    key = service.key(shop=one["id"])
    bootstrap.back_up(service.settings, target, with_secret=False, clock=service.clock)
    service.clock.advance(3_600)
    service.ledger.advance_horizon()
    mark = service.get("shops", key).json()["serverTime"]
    service.clock.step(-7_200)
    service = restarted(service, target)
    service.load(*bills(one, 1))
    (fresh,) = service.data("transactions", key, shopId=one["id"], updatedSince=mark)
    assert datetime.fromisoformat(fresh["updatedAt"]) > datetime.fromisoformat(mark)
    service.close()


def test_on_postgresql_the_commands_say_what_to_do_instead(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_STORE", "postgresql://127.0.0.1/counterfoil")
    command = Command(Path("unused"))
    for words in (("backup", target), ("restore", target)):
        assert "docs/backup.md" in command.bare(*words, status=1).stderr


def test_a_backup_is_neither_made_inside_its_store_nor_restored_onto_itself(loaded: Command, target: Path) -> None:
    assert "inside the store itself" in loaded("backup", loaded.store / "backup", status=1).stderr
    loaded("backup", target)
    refused = Command(target)("restore", target, "--replace", "--yes", status=1)
    assert "is the backup itself" in refused.stderr


@pytest.mark.parametrize("file", ["backup.json", "keys.sqlite3", "secret"])
def test_a_restore_does_not_wait_for_a_named_pipe_in_a_backup(
    loaded: Command, elsewhere: Command, target: Path, file: str
) -> None:
    loaded("backup", target)
    (target / file).unlink()
    os.mkfifo(target / file)
    assert file in elsewhere("restore", target, status=1).stderr


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda file: file.write_bytes(b"short\n"), "is shorter than 32 bytes"),
        (os.mkfifo, "not a regular file"),
        (Path.mkdir, "not a regular file"),
    ],
)
def test_a_secret_file_that_holds_no_secret_is_refused_with_a_sentence(
    loaded: Command, elsewhere: Command, target: Path, make: Callable[[Path], object], said: str
) -> None:
    loaded("backup", target)
    elsewhere.store.mkdir(mode=0o700)
    make(elsewhere.store / "secret")
    error = elsewhere("restore", target, status=1).stderr
    assert said in error
    assert "unexpected" not in error
    assert not (elsewhere.store / "keys.sqlite3").exists()


# --- the record of backups, and rotation ----------------------------------------------


def dated(loaded: Command, folder: Path, *days: str) -> list[str]:
    """Make copies of a backup that `--keep` could have made on these days in November 2026; return their names."""
    loaded("backup", folder / "first")
    copies = [f"2026-11-{day}T200000Z" for day in days]
    for name in copies:
        shutil.copytree(folder / "first", folder / name)
    shutil.rmtree(folder / "first")
    return copies


def test_a_backup_is_recorded_with_its_folder_and_its_time(loaded: Command, target: Path) -> None:
    made = loaded.json("backup", target)
    (entry,) = [entry for entry in loaded.json("audit") if entry["act"] == "store_backed_up"]
    assert (entry["detail"], entry["at"]) == (str(target), made["createdAt"])
    # A backup that was deleted is none.
    loaded("backup", target.with_name("later"))
    shutil.rmtree(target.with_name("later"))
    assert loaded.json("status", status=1)["lastBackupAt"] == made["createdAt"]
    shutil.rmtree(target)
    assert loaded.json("status", status=1)["lastBackupAt"] is None


def test_a_backup_of_a_store_that_cannot_be_written_is_complete_and_says_that_it_is_not_recorded(
    loaded: Command, target: Path
) -> None:
    fail = "BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
    run_sql(loaded.store, "keys", f"CREATE TRIGGER full BEFORE INSERT ON audit {fail}")
    assert "could not be recorded" in loaded("backup", target).stderr
    assert (target / "backup.json").exists()
    assert loaded.json("status", status=1)["lastBackupAt"] is None


def test_with_keep_a_backup_is_named_after_its_time_and_the_oldest_ones_are_deleted(
    loaded: Command, elsewhere: Command, folder: Path
) -> None:
    oldest, *newer = dated(loaded, folder, "01", "02", "03")
    made = loaded.json("backup", folder, "--keep", "3")
    assert made["deleted"] == [str(folder / oldest)]
    new = Path(made["folder"])
    assert new.parent == folder
    assert datetime.strptime(new.name, "%Y-%m-%dT%H%M%S%z").timestamp() > 0
    assert names(folder) == sorted([*newer, new.name])
    elsewhere("restore", new)


def test_a_rotation_is_refused_if_the_folder_above_does_not_exist(loaded: Command, tmp_path: Path) -> None:
    unmounted = tmp_path / "unmounted"
    loaded("backup", unmounted / "backups", "--keep", "2", status=1)
    assert not unmounted.exists()


def test_the_new_backup_is_kept_even_if_the_clock_was_set_back(loaded: Command, folder: Path) -> None:
    loaded("backup", folder / "2999-01-01T000000Z")
    new = Path(loaded.json("backup", folder, "--keep", "1")["folder"])
    assert names(folder) == [new.name]


def test_a_rotation_deletes_nothing_that_it_did_not_make(loaded: Command, folder: Path, tmp_path: Path) -> None:
    (own,) = dated(loaded, folder, "01")
    other = Command(tmp_path / "other")
    other("load", "-", stdin=SHOPS[0])
    other("backup", folder / "2026-11-02T200000Z")
    loaded("backup", folder / "before-the-upgrade")
    (folder / "2026-11-03T200000Z").mkdir()
    (folder / "2026-11-04T200000Z").write_bytes(b"a file")
    (folder / "2026-11-05T200000Z").symlink_to(folder / "before-the-upgrade")
    before = names(folder)
    made = loaded.json("backup", folder, "--keep", "1")
    assert made["deleted"] == [str(folder / own)]
    assert set(names(folder)) - {Path(made["folder"]).name} == set(before) - {own}


def test_a_rotation_deletes_what_an_interrupted_one_has_left_behind(loaded: Command, folder: Path) -> None:
    remains = folder / ".2026-11-01T200000Z.0a1b2c3d"
    remains.mkdir(parents=True)
    (remains / "keys.sqlite3").write_bytes(b"half of it")
    made = loaded.json("backup", folder, "--keep", "14")
    assert names(folder) == [Path(made["folder"]).name]


def test_a_damaged_store_is_not_backed_up_and_no_backup_is_deleted(loaded: Command, folder: Path) -> None:
    kept = dated(loaded, folder, "01", "02")
    file = loaded.store / "books.sqlite3"
    content = bytearray(file.read_bytes())
    content[3 * 8192 : 4 * 8192] = b"x" * 8192
    file.write_bytes(content)
    loaded("backup", folder, "--keep", "1", status=1)
    assert names(folder) == kept


def test_two_rotations_do_not_run_at_once(loaded: Command, folder: Path) -> None:
    with rotating(loaded.store, folder, 0):
        assert "another process" in loaded("backup", folder, "--keep", "1", status=1).stderr
    loaded("backup", folder, "--keep", "1")


@pytest.mark.parametrize(
    "words",
    [(), ("DIR", "--keep", "0"), ("--record", "base", "DIR"), ("--record", "base", "--keep", "3")],
    ids=" ".join,
)
def test_options_that_do_not_fit_are_refused(loaded: Command, tmp_path: Path, words: tuple[str, ...]) -> None:
    loaded("backup", *(tmp_path / "backups" if word == "DIR" else word for word in words), status=2)
    assert not (tmp_path / "backups").exists()


def test_backups_of_an_embedded_store_are_made_and_not_only_recorded(loaded: Command) -> None:
    loaded("backup", "--record", "snapshot", status=1)
    assert loaded.json("status", status=1)["lastBackupAt"] is None


def test_a_folder_of_backups_is_refused_with_the_newest_of_them(counterfoil: Command, tmp_path: Path) -> None:
    counterfoil("load", "-", stdin=SHOPS[0])
    backups = tmp_path / "backups"
    counterfoil("backup", "--keep", 3, backups)
    (newest,) = backups.iterdir()
    refused = Command(tmp_path / "new")("restore", backups, status=1)
    assert f"Name one of them; the newest is {newest}." in refused.output


# --- remembered mappings of exports ---------------------------------------------------

MAPPING = b'[recognise]\nname = "till"\ncolumns = ["Receipt"]\n'


@pytest.fixture
def mapping(loaded: Command) -> Path:
    """A mapping that was accepted in the store."""
    folder = loaded.store / "mappings"
    folder.mkdir(mode=0o700)
    file = folder / "till.toml"
    file.write_bytes(MAPPING)
    file.chmod(0o600)
    return file


def test_a_backup_has_the_remembered_mappings_and_a_restore_puts_them_back_for_the_owner_only(
    loaded: Command, elsewhere: Command, target: Path, mapping: Path
) -> None:
    mapping.with_suffix(".toml.partial").write_bytes(b"half of it")
    made = loaded.json("backup", target)
    assert made["mappings"]["till.toml"]["sizeBytes"] == len(MAPPING)
    assert (names(target / "mappings"), modes(target / "mappings")) == (["till.toml"], {0o600})

    assert elsewhere.json("restore", target)["mappings"] == ["till.toml"]
    restored = elsewhere.store / "mappings"
    assert (restored / "till.toml").read_bytes() == MAPPING
    assert (modes(restored), stat.S_IMODE(restored.stat().st_mode)) == ({0o600}, 0o700)


def test_in_a_shared_store_restored_mappings_are_shared_again(
    loaded: Command, elsewhere: Command, target: Path, mapping: Path
) -> None:
    loaded("backup", target)
    elsewhere("restore", target)
    elsewhere("init", "--share")
    loaded("init", "--share")
    loaded("restore", target, "--replace", "--yes")
    for store in (loaded.store, elsewhere.store):
        folder = store / "mappings"
        assert (modes(folder), stat.S_IMODE(folder.stat().st_mode)) == ({0o640}, 0o2770)


def test_a_restore_replaces_the_mappings_too_and_keeps_the_previous_ones(
    loaded: Command, target: Path, mapping: Path
) -> None:
    loaded("backup", target)
    mapping.with_name("newer.toml").write_bytes(MAPPING)
    mapping.write_bytes(b"# changed\n" + MAPPING)
    done = loaded.json("restore", target, "--replace", "--yes")
    assert mapping.read_bytes() == MAPPING
    assert names(mapping.parent) == ["till.toml"]
    assert names(Path(done["previousFiles"]) / "mappings") == ["newer.toml", "till.toml"]


def test_a_backup_that_was_made_before_mappings_were_copied_is_restored_and_the_mappings_stay(
    loaded: Command, target: Path, mapping: Path
) -> None:
    loaded("backup", target)
    shutil.rmtree(target / "mappings")
    manifest = json.loads((target / "backup.json").read_bytes())
    del manifest["mappings"], manifest["leftOut"]
    (target / "backup.json").write_text(json.dumps(manifest))
    loaded("restore", target, "--replace", "--yes")
    assert mapping.read_bytes() == MAPPING


def test_mappings_that_others_may_write_are_left_out_of_a_backup_with_a_note(
    loaded: Command, target: Path, mapping: Path
) -> None:
    mapping.with_name("open.toml").write_bytes(MAPPING)
    mapping.with_name("open.toml").chmod(0o666)
    mapping.with_name("linked.toml").symlink_to(mapping)
    os.mkfifo(mapping.with_name("pipe.toml"), 0o600)
    mapping.with_name("folder.toml").mkdir(0o700)
    notes = loaded("backup", target).stderr
    assert names(target / "mappings") == ["till.toml"]
    for name in ("open", "linked", "pipe", "folder"):
        assert f"{name}.toml" in notes

    mapping.parent.chmod(0o777)
    notes = loaded("backup", target.with_name("later")).stderr
    assert f"every user of this machine may write to {mapping.parent}" in notes
    assert not (target.with_name("later") / "mappings").exists()


@pytest.mark.parametrize("path", [".", "mappings", "mappings/till.toml"])
def test_mappings_of_a_backup_that_others_may_write_are_not_restored_and_a_note_says_so(
    loaded: Command, elsewhere: Command, target: Path, mapping: Path, path: str
) -> None:
    loaded("backup", target)
    (target / path).chmod(0o777)
    assert "every user of this machine may write to" in elsewhere("restore", target).stderr
    assert not (elsewhere.store / "mappings").exists()
    assert len(elsewhere.json("shops")) == 2


def test_a_mapping_that_is_there_before_the_first_restore_stays(
    loaded: Command, elsewhere: Command, target: Path, mapping: Path
) -> None:
    loaded("backup", target)
    own = elsewhere.store / "mappings" / "till.toml"
    own.parent.mkdir(mode=0o700, parents=True)
    own.write_bytes(b"# its own\n")
    done = elsewhere.json("restore", target)
    assert (own.read_bytes(), done["mappings"], len(done["leftOut"])) == (b"# its own\n", [], 1)


def test_a_backup_with_a_damaged_missing_or_foreign_mapping_is_refused(
    loaded: Command, elsewhere: Command, target: Path, mapping: Path
) -> None:
    loaded("backup", target)
    copy = target / "mappings" / "till.toml"
    copy.write_bytes(MAPPING.replace(b"Receipt", b"Payment"))
    assert "till.toml" in elsewhere("restore", target, status=1).stderr
    copy.unlink()
    assert "till.toml" in elsewhere("restore", target, status=1).stderr
    assert "backup_lost" in loaded("status", "--json", status=None).stdout
    manifest = target / "backup.json"
    manifest.write_text(manifest.read_text().replace('"till.toml"', '"../till.toml"'))
    (target / "till.toml").write_bytes(MAPPING)
    assert "in another folder" in elsewhere("restore", target, status=1).stderr
    assert not elsewhere.store.exists()
