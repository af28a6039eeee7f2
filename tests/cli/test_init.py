"""Tests for commands that create, complete and migrate a store, and for those that must not create one."""

import os
from pathlib import Path

import pytest

import servers
from cli.command import SHOPS, Command, file_size_limit
from counterfoil.backends.postgres.administration import ROLES
from counterfoil.backends.postgres.schema import scripts
from counterfoil.model.text import without_password

DATABASES = {"books.sqlite3", "keys.sqlite3", "usage.sqlite3"}


def test_it_creates_an_empty_store_with_its_secret(counterfoil: Command, store: Path) -> None:
    assert "is ready" in counterfoil("init").stdout
    created = {file.name for file in store.iterdir() if not file.name.endswith(("-wal", "-shm"))}
    assert created == DATABASES | {"secret"}
    assert counterfoil.json("keys", "list") == []


@pytest.mark.parametrize(("mode", "says"), [(0o777, "every user of this machine"), (0o770, "its group"), (0o755, "")])
def test_a_folder_that_others_can_write_to_does_not_become_a_store(
    counterfoil: Command, store: Path, mode: int, says: str
) -> None:
    store.mkdir()
    store.chmod(mode)
    result = counterfoil("init", status=1 if says else 0)
    assert says in result.stderr
    assert bool(list(store.iterdir())) is not bool(says)
    if not says:
        # The folder of an existing store is left as it is.
        store.chmod(0o777)
        counterfoil("init")


@pytest.mark.parametrize(("mode", "owner"), [(0o666, None), (0o660, None), (0o600, 65534)])
def test_a_secret_that_somebody_else_may_have_put_there_is_refused(
    counterfoil: Command, store: Path, mode: int, owner: int | None
) -> None:
    store.mkdir(mode=0o700)
    secret = store / "secret"
    secret.write_text("f" * 64)
    secret.chmod(mode)
    if owner:
        try:
            os.chown(secret, owner, -1)
        except PermissionError:
            # Only root can give a file away.
            return
    assert "somebody else may know this deployment secret" in counterfoil("init", status=1).stderr
    assert [file.name for file in store.iterdir()] == ["secret"]


def test_the_secret_of_an_earlier_store_is_kept_and_named(counterfoil: Command, store: Path) -> None:
    store.mkdir(mode=0o700)
    (store / "secret").write_text("f" * 64)
    (store / "secret").chmod(0o600)
    assert f"the deployment secret was already in {store / 'secret'}" in counterfoil("init").stderr
    assert (store / "secret").read_text() == "f" * 64


def test_a_new_store_says_that_its_secret_is_new_and_can_have_that_of_another_store(
    counterfoil: Command, store: Path, tmp_path: Path
) -> None:
    assert "the members in every copy get other IDs" in counterfoil("init").stderr
    other = Command(tmp_path / "other")
    assert "other IDs" not in other("init", "--secret-file", store / "secret").stderr
    assert (other.store / "secret").read_text() == (store / "secret").read_text()
    assert (other.store / "secret").stat().st_mode & 0o777 == 0o600
    # A store that exists keeps its own secret.
    third = tmp_path / "third"
    third.write_text("f" * 64)
    assert "has another deployment secret" in other("init", "--secret-file", third, status=1).output
    third.write_text("short")
    assert "has no deployment secret" in Command(tmp_path / "4")("init", "--secret-file", third, status=1).output
    assert not (tmp_path / "4").exists()


def test_it_leaves_an_existing_store_as_it_is(counterfoil: Command) -> None:
    counterfoil("load", "-", stdin=SHOPS[0])
    counterfoil("init")
    assert counterfoil.json("load", "-", stdin=SHOPS[0])["unchanged"] == 1


@pytest.mark.parametrize("command", ["load -", "keys issue --not-loaded-yet --shop sh_1"])
def test_a_first_load_and_a_first_key_create_all_files_say_so_and_are_recorded(
    counterfoil: Command, command: str
) -> None:
    assert f"note: created the store {counterfoil.store}." in counterfoil(*command.split(), stdin=b"\n").stderr
    assert {file.name for file in counterfoil.store.glob("*.sqlite3")} == DATABASES
    assert "created the store" not in counterfoil(*command.split(), stdin=b"\n").stderr
    assert [entry["act"] for entry in counterfoil.json("audit")].count("store_created") == 1


@pytest.mark.usefixtures("free_ports")
def test_other_commands_create_nothing(counterfoil: Command, store: Path) -> None:
    commands = ("serve", "keys list", "usage", "prune", "status", "shops", "load --accept-change")
    for command in commands:
        assert f"there is no store at {store}" in counterfoil(*command.split(), status=1).stderr
    assert not store.exists()
    store.mkdir()
    for command in commands:
        assert f"there is no store at {store}" in counterfoil(*command.split(), status=1).stderr
    assert list(store.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "note"),
    [
        ("shops", "no shops are loaded yet"),
        ("loads", "nothing has been loaded yet"),
        ("loads open", "there are no open items"),
        ("usage", "no keys found"),
        ("usage --disclosures", "no disclosures found"),
        ("requests", "no recorded request matches"),
    ],
)
def test_a_list_without_rows_is_a_note(counterfoil: Command, command: str, note: str) -> None:
    counterfoil("init")
    result = counterfoil(*command.split())
    assert (result.stdout, note in result.stderr) == ("", True)
    assert counterfoil.json(*command.split()) == []


def test_only_a_lost_file_is_created_again(counterfoil: Command, store: Path) -> None:
    counterfoil("init")
    assert "is not missing" in counterfoil("init", "--recreate", "usage", status=1).stderr
    (store / "usage.sqlite3").unlink()
    assert "counterfoil init --recreate usage" in counterfoil("usage", status=1).stderr
    counterfoil("init", "--recreate", "usage")
    counterfoil("usage")


# A new store needs a file of about 300 kB. With these limits, the creation fails at different steps.
@pytest.mark.usefixtures("free_ports")
@pytest.mark.parametrize(
    ("command", "size"),
    [
        *((["init"], size) for size in (0, 4_000, 20_000, 100_000, 290_000)),
        (["load", "-"], 20_000),
        (["keys", "issue", "--not-loaded-yet", "--shop", "sh_1"], 20_000),
    ],
)
def test_a_store_that_could_not_be_created_on_a_full_disk_is_completed_by_the_same_command(
    counterfoil: Command, store: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], size: int
) -> None:
    (store.parent / "secret").write_text("5" * 64, "utf-8")
    monkeypatch.setenv("COUNTERFOIL_SECRET_FILE", str(store.parent / "secret"))
    with monkeypatch.context() as full, file_size_limit(size):
        real = os.statvfs(store.parent)
        full.setattr(os, "statvfs", lambda _: os.statvfs_result((*real[:4], 0, *real[5:])))
        failed = counterfoil(*command, stdin=SHOPS[0], status=1)
    assert f"a store cannot be created in {store}, because the disk is full" in failed.stderr
    for other in (["status"], ["keys", "list"], ["serve"]):
        assert "run `counterfoil init` to complete it" in counterfoil(*other, status=1).stderr
    assert "is incomplete" in counterfoil("doctor", status=1).stdout
    counterfoil(*command, stdin=SHOPS[0])
    assert counterfoil.json("audit")[-1]["act"] == "store_created"
    assert "incomplete" not in counterfoil("doctor").stdout


def test_a_secret_that_could_not_be_written_is_named_and_leaves_no_file(counterfoil: Command, store: Path) -> None:
    with file_size_limit(0):
        failed = counterfoil("load", "-", stdin=SHOPS[0], status=1)
    assert f"{store / 'secret'}: File too large" in failed.stderr
    assert [file.name for file in store.iterdir() if file.name.startswith("secret")] == []
    counterfoil("load", "-", stdin=SHOPS[0])


@pytest.fixture
def bare() -> Command:
    """A command on an empty database."""
    server = servers.postgres(18)
    server.command("DROP DATABASE IF EXISTS bare_of_all")
    server.command("CREATE DATABASE bare_of_all")
    return Command(server.url("bare_of_all"))


def test_migrate_creates_the_schema_and_on_request_the_roles_and_reports_what_it_ran(bare: Command) -> None:
    assert "counterfoil migrate" in bare("keys", "list", status=1).output
    assert bare.json("migrate")["migrations"] == [script.file for script in scripts()]
    assert bare.json("migrate")["migrations"] == []
    assert "up to date" in bare("migrate").stdout
    assert bare.json("migrate", "--roles")["roles"] == list(ROLES)


def test_keys_usage_and_doctor_work_on_postgresql(
    bare: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    bare("migrate")
    bare("keys", "issue", "--not-loaded-yet", "--shop", "sh_1", "--label", "till")
    assert "till" in bare("keys", "list").stdout
    bare("usage")
    bare("prune")
    assert "no problems" in bare("doctor", status=None).output


@pytest.mark.parametrize(
    ("address", "seen"),
    [
        ("postgresql://api:pa%2Fs@db:5432/x?sslmode=require", "postgresql://api:***@db:5432/x?sslmode=require"),
        # If the password is not percent-encoded, its end is unknown, so everything after the scheme is hidden.
        ("postgresql://api:pa:s@s/w@db:5432/x?sslmode=require", "postgresql://***"),
        ("postgresql://api@db/x?password=hush&sslpassword=hush", "postgresql://api@db/x?password=***&sslpassword=***"),
        ("rediss://:hush@meter:6379/0", "rediss://:***@meter:6379/0"),
        ("redis+cluster://u:hush@a:1,b:2", "redis+cluster://u:***@a:1,b:2"),
        ("postgresql://db/x", "postgresql://db/x"),
        ("/var/lib/counterfoil", "/var/lib/counterfoil"),
    ],
)
def test_a_password_in_an_address_is_never_shown(address: str, seen: str) -> None:
    assert without_password(address) == seen
