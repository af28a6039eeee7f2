"""Tests for `counterfoil pull` and `counterfoil reconcile`: options, summaries and exit statuses."""

import json
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result

import records as r
from actors import OPERATOR
from broken_store import table_missing
from client.pulled_copy import PLENTY
from client.targets import postgres_url
from counterfoil import key_issuing
from counterfoil.program.main import program
from running_service import RunningService, free_port
from waiting import until

PYTHON = (sys.executable, "-m", "counterfoil")


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("COUNTERFOIL_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


DUCKDB = ("--to", "counterfoil.duckdb")
UNKNOWN_KEY = "cf_live_unknownkey00_" + "x" * 40


class CopyOwner:
    """A user who keeps a copy of a branch, in SQLite unless a test names another target.

    A pull into SQLite takes half as long as one into DuckDB, which is the default.
    """

    def __init__(self, service: RunningService, branch: r.Record, folder: Path) -> None:
        self.service = service
        self.branch = branch
        self.folder = folder
        self.key_file = folder / "key"
        self.take_key(**PLENTY)

    @property
    def remote(self) -> tuple[str, ...]:
        return "--url", f"{self.service.url}/ext/v1", "--key-file", str(self.key_file)

    def take_key(self, **terms: Any) -> None:
        self.key_file.write_text(self.service.key(franchise=self.branch["franchiseId"], **terms) + "\n")
        self.service.clock.advance(1)

    def words(self, command: str, *words: object) -> list[str]:
        target = () if "--to" in words else ("--to", "copy.sqlite")
        remote = self.remote[2:] if "--url" in words else self.remote
        return [command, *remote, *target, *map(str, words)]

    def __call__(self, command: str, *words: object, status: int = 0) -> Result:
        return counterfoil(*self.words(command, *words), status=status)

    def json(self, command: str, *words: object, status: int = 0) -> Any:
        return json.loads(self(command, *words, "--json", status=status).stdout)

    def damage(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.folder / "copy.sqlite", isolation_level=None)) as db:
            db.executescript(";".join(statements))


def counterfoil(*words: str, status: int = 0, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(program, list(words), input=stdin)
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def copy_owner(service: RunningService, branch: r.Record, tmp_path: Path) -> CopyOwner:
    return CopyOwner(service, branch, tmp_path)


# --- pull ------------------------------------------------------------------------------


def test_a_pull_reports_what_it_did(copy_owner: CopyOwner) -> None:
    told = counterfoil("pull", *copy_owner.remote).stdout
    assert "counterfoil.duckdb" in told
    assert "19 added, 0 changed, 0 removed, 0 unchanged" in told
    assert "6 added, 0 changed, 0 removed, 0 unchanged" in told
    assert "left today" in told
    assert "/s" not in told, "a small pull shows no rate"
    assert (copy_owner.folder / "counterfoil.duckdb").exists()


def test_a_pull_names_a_shop_that_has_left_the_scope_once(copy_owner: CopyOwner) -> None:
    other = r.branch(franchiseId=copy_owner.branch["franchiseId"])
    copy_owner.service.load(other)
    copy_owner("pull")
    copy_owner.service.load(other | {"franchiseId": "another-franchise"})
    assert other["id"] in copy_owner("pull").stderr
    assert copy_owner("pull").stderr == ""


def test_lost_rows_of_a_shop_that_left_are_named_until_the_loss_is_accepted(copy_owner: CopyOwner) -> None:
    other = r.branch(franchiseId=copy_owner.branch["franchiseId"])
    copy_owner.service.load(other, r.bill(other))
    copy_owner("pull")
    copy_owner.service.load(other | {"franchiseId": "another-franchise"})
    copy_owner("pull")
    copy_owner.damage("DELETE FROM payments")
    assert copy_owner("reconcile", "--deep", "--fix", status=3).stderr.count(f"{other['id']} (payments)") == 1
    failed = copy_owner("pull", "--full", status=3)
    assert f"{other['id']} (payments)" in failed.stderr
    assert "--accept-loss" in failed.stderr
    told = copy_owner.json("pull", status=3)
    assert (told["status"], told["incompleteShops"]) == ("incomplete", {other["id"]: ["payments"]})
    assert copy_owner.json("reconcile", status=3)["equal"] is False
    assert copy_owner("pull", "--accept-loss").stderr == ""
    assert copy_owner("pull").stderr == ""
    assert copy_owner.json("reconcile")["equal"] is True


def test_a_pull_reports_in_json_on_request(copy_owner: CopyOwner) -> None:
    told = copy_owner.json("pull", "--members-every", "1d")
    found = (told["status"], told["target"], told["billsWritten"], told["membersWritten"])
    assert found == ("ok", "copy.sqlite", 19, 6)
    assert (told["shops"], told["shopsRead"]) == (1, 1)
    assert told["requests"] == 3, "expected one request each for the key, the feed and the members"
    assert told["requestsLeft"] == 1_000_000 - 3
    idle = copy_owner.json("pull", "--members-every", "1d")
    assert (idle["billsWritten"], idle["requests"]) == (0, 1)


@pytest.mark.parametrize("name", ["there/", "old"])
def test_a_folder_is_a_target_for_parquet(copy_owner: CopyOwner, name: str) -> None:
    (copy_owner.folder / "old").mkdir()
    copy_owner("pull", "--to", name)
    assert (copy_owner.folder / name / "bills.parquet").exists()


@pytest.mark.long
def test_postgresql_is_a_target_and_its_password_is_not_shown(copy_owner: CopyOwner) -> None:
    url = postgres_url().replace("postgres@", "postgres:sesame@")
    told = copy_owner("pull", "--to", url)
    assert "sesame" not in told.output
    assert "postgresql://postgres@127.0.0.1" in told.stdout


def test_the_key_may_come_from_the_environment_or_standard_input(
    copy_owner: CopyOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = copy_owner.key_file.read_text()
    words = ("pull", "--url", copy_owner.service.url, "--to", "copy.sqlite")
    counterfoil(*words, "--key-file", "-", stdin=key)
    monkeypatch.setenv("COUNTERFOIL_KEY", key)
    counterfoil(*words)


def test_a_key_on_the_command_line_is_refused_and_not_repeated() -> None:
    result = counterfoil("pull", "--url", "http://127.0.0.1/ext/v1", "--key", UNKNOWN_KEY, status=2)
    assert "--key-file" in result.stderr
    assert UNKNOWN_KEY not in result.output


@pytest.mark.parametrize(
    "words",
    [
        ("--to", "copy.csv"),
        ("--shops", ","),
        ("--then", "'"),
        ("--then", ""),
        ("--to", "mysql://x/y"),
        ("--since", "yesterday"),
        ("--since", "2999-01-01"),
        ("--every", "5"),
        ("--every", "0s"),
        ("--every", "-5m"),
        ("--full", "--every", "5m"),
        ("--members-every", "daily"),
        ("--limit", "0"),
        ("--limit", "1001"),
        ("--url", "nonsense"),
        ("--key-file", "missing"),
        ("--key-file", "empty"),
        ("--key-file", "two words"),
    ],
    ids=" ".join,
)
def test_misuse_is_one_sentence_and_status_2(tmp_path: Path, words: tuple[str, ...]) -> None:
    for name, content in (("key", UNKNOWN_KEY), ("empty", "\n"), ("two words", "two words")):
        (tmp_path / name).write_text(content)
    before = sorted(tmp_path.iterdir())
    url = () if "--url" in words else ("--url", "http://127.0.0.1/ext/v1")
    key = () if "--key-file" in words else ("--key-file", "key")
    result = counterfoil("pull", *url, *key, *words, status=2)
    assert result.stderr.startswith("counterfoil: ")
    assert result.stderr.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


WRONG_KEY = ("/ext/v1", "invalid_key", "request ")
WRONG_ADDRESS = ("/ext", "/ext. The address usually ends in /ext/v1.", "")


@pytest.mark.parametrize("target", ["new/copy.duckdb", "new/copy.sqlite", "new/parquet/", "old/"])
@pytest.mark.parametrize(("path", "message", "reference"), [WRONG_KEY, WRONG_ADDRESS], ids=["key", "address"])
def test_a_refused_first_request_is_reported_and_leaves_no_files_behind(
    copy_owner: CopyOwner, target: str, path: str, message: str, reference: str
) -> None:
    (copy_owner.folder / "old").mkdir()
    copy_owner.key_file.write_text(UNKNOWN_KEY)
    before = sorted(copy_owner.folder.rglob("*"))
    words = ("--url", copy_owner.service.url + path, "--to", target, "--json")
    result = copy_owner("pull", *words, status=1)
    assert message in result.stderr
    assert reference in result.stderr
    assert json.loads(result.stdout)["requests"] == 1
    assert sorted(copy_owner.folder.rglob("*")) == before


def test_a_key_that_is_refused_is_reported_with_what_to_do(copy_owner: CopyOwner) -> None:
    service, key = copy_owner.service, copy_owner.key_file.read_text()
    key_issuing.revoke(service.key_store, key.split("_")[2], service.clock.now_ms(), OPERATOR)
    service.clock.advance(1)
    assert "ask your operator for a new key" in copy_owner("pull", status=1).stderr
    copy_owner.key_file.write_text(UNKNOWN_KEY)
    assert "it may be mistyped or cut off" in copy_owner("pull", status=1).stderr


def test_a_spent_quota_gives_exit_status_4_and_says_when_it_resets(copy_owner: CopyOwner) -> None:
    copy_owner.take_key(per_min=1000, per_day=8)
    result = copy_owner("pull", "--limit", 1, "--json", status=4)
    assert "progress saved" in result.stderr
    told = json.loads(result.stdout)
    assert (told["status"], told["requests"]) == ("quota", 9)
    assert told["resumesAt"].endswith("T00:00:00+07:00")
    result = copy_owner("pull", status=4)
    assert "quota_exceeded" in result.stderr
    assert "nothing was read. Run the same command to try again." in result.stderr


def test_a_failing_or_unreachable_service_gives_exit_status_5(
    copy_owner: CopyOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterfoil.client.connection.FIRST_PAUSE_SEC", 0.001)
    address = f"http://127.0.0.1:{free_port()}/ext/v1"
    unreachable = copy_owner("pull", "--url", address, status=5)
    assert f"the service cannot be reached at {address}: " in unreachable.stderr
    assert "check the address (--url or COUNTERFOIL_URL)" in unreachable.stderr
    assert "progress saved" not in unreachable.stderr
    copy_owner("pull")
    copy_owner.service.load(r.bill(copy_owner.branch))
    with table_missing(copy_owner.service, "books", "bills"):
        told = copy_owner.json("pull", status=5)
    assert told["status"] == "internal"
    copy_owner("pull")


@pytest.mark.parametrize(
    ("option", "address", "message"),
    [
        ("--url", "http://me:sesame@127.0.0.1/ext/v1", "must not contain a user name or a password"),
        ("--to", "postgresql://me:open@sesame@db.example.com/copy", "%40"),
    ],
)
def test_a_password_in_an_address_is_refused_and_not_shown(
    copy_owner: CopyOwner, option: str, address: str, message: str
) -> None:
    result = copy_owner("pull", option, address, status=2)
    assert message in result.stderr
    assert "sesame" not in result.output


def test_another_key_is_refused_until_it_is_adopted(copy_owner: CopyOwner) -> None:
    copy_owner("pull")
    copy_owner.take_key(**PLENTY)
    refused = copy_owner("pull", status=1)
    assert (refused.stdout, "--adopt" in refused.stderr) == ("", True)
    copy_owner("pull", "--adopt")
    copy_owner("pull")


# --- repeated pulls, and stopping --------------------------------------------------------


@contextmanager
def pulling(copy_owner: CopyOwner, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a process that pulls for the duration of the block."""
    process = subprocess.Popen(
        [*PYTHON, *copy_owner.words("pull", "--json", *words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=copy_owner.folder,
    )
    yield process
    process.kill()
    process.communicate()


def told(process: "subprocess.Popen[str]") -> Any:
    assert process.stdout
    return json.loads(process.stdout.readline())


@pytest.mark.programs
def test_a_repeated_pull_copies_new_data_until_it_is_stopped(copy_owner: CopyOwner) -> None:
    with pulling(copy_owner, "--every", "1s") as process:
        assert told(process)["billsWritten"] == 19
        copy_owner.service.load(r.bill(copy_owner.branch))
        later = [told(process), told(process)]
        assert sum(run["billsWritten"] for run in later) == 1
        assert {run["membersRead"] for run in later} == {0}
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130


@pytest.mark.programs
def test_the_file_can_be_read_between_runs_and_a_terminated_pull_dies_of_the_signal(copy_owner: CopyOwner) -> None:
    with pulling(copy_owner, "--every", "1h", *DUCKDB) as process:
        told(process)
        with duckdb.connect(str(copy_owner.folder / "counterfoil.duckdb"), read_only=True) as db:
            assert db.sql("FROM bills").shape[0] == 19
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == -signal.SIGTERM
    assert not list(copy_owner.folder.glob("*.scratch"))


@pytest.mark.programs
def test_a_pull_that_is_interrupted_says_so_at_once_and_saves_its_progress(copy_owner: CopyOwner) -> None:
    copy_owner.take_key(per_min=3, per_day=1000)
    with pulling(copy_owner, "--limit", "5", *DUCKDB) as process:
        until((copy_owner.folder / "counterfoil.duckdb.scratch" / "rows.ndjson").exists, "the pull has read a page")
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=20)
    assert process.returncode == 130, stderr
    assert "saving the rows" in stderr
    assert "progress saved" in stderr
    assert json.loads(stdout)["status"] == "interrupted"


THEN = "import os, sys; open(sys.argv[1], 'a').write(os.environ['COUNTERFOIL_PULL_BILLS_ADDED'] + '\\n')"


def python(source: str, *words: str) -> str:
    """Return a command for --then that runs a Python program."""
    return shlex.join([sys.executable, "-c", source, *words])


def test_a_command_is_run_after_each_run_that_changed_something(copy_owner: CopyOwner) -> None:
    command = python(THEN, "a file; touch injected")
    for _ in range(2):
        copy_owner("pull", "--then", command)
    copy_owner.service.load(r.bill(copy_owner.branch))
    copy_owner("pull", "--then", command)
    assert (copy_owner.folder / "a file; touch injected").read_text() == "19\n1\n"
    assert not (copy_owner.folder / "injected").exists()


@pytest.mark.parametrize(("command", "message"), [("false", "status 1"), ("/no/such/command", "No such file")])
def test_a_command_that_fails_is_reported_and_run_again_even_if_nothing_has_changed_since(
    copy_owner: CopyOwner, command: str, message: str
) -> None:
    result = copy_owner("pull", "--then", command, status=1)
    assert message in result.stderr
    assert "The next run with --then runs the command again." in result.stderr
    copy_owner("pull")
    for _ in range(2):
        copy_owner("pull", "--then", python(THEN, "runs"))
    assert (copy_owner.folder / "runs").read_text() == "0\n"


def test_a_command_that_fails_after_a_failed_run_is_reported_too(copy_owner: CopyOwner) -> None:
    copy_owner.take_key(per_min=1000, per_day=8)
    result = copy_owner("pull", "--limit", 2, "--then", "false", status=4)
    assert "quota_exceeded" in result.stderr
    assert "false exited with status 1" in result.stderr


@pytest.mark.programs
def test_a_command_is_run_for_changes_of_a_run_that_was_killed(copy_owner: CopyOwner) -> None:
    command = python("import os, signal; os.kill(os.getppid(), signal.SIGKILL)")
    killed = subprocess.run([*PYTHON, *copy_owner.words("pull", "--then", command)], check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    copy_owner("pull", "--then", python(THEN, "runs"))
    assert (copy_owner.folder / "runs").read_text() == "0\n"


@pytest.mark.programs
def test_a_command_that_failed_is_run_again_in_the_next_round(copy_owner: CopyOwner) -> None:
    fails_once = "import os, sys; path = sys.argv[1]; os.path.exists(path) or sys.exit(open(path, 'w').close() or 1)"
    then = python(f"{fails_once}; open('done', 'a').write('x')", "tried")
    with pulling(copy_owner, "--every", "1s", "--then", then) as process:
        for _ in range(4):
            told(process)
    assert (copy_owner.folder / "done").read_text() == "x"


def test_the_key_is_not_passed_to_the_command(copy_owner: CopyOwner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_KEY", copy_owner.key_file.read_text())
    copy_owner("pull", "--then", python("import os, sys; sys.exit('COUNTERFOIL_KEY' in os.environ)"))


# --- reconcile ---------------------------------------------------------------------------


def test_a_comparison_says_what_it_compared(copy_owner: CopyOwner) -> None:
    copy_owner("pull", "--then", "true")
    copy_owner.damage("UPDATE bill_items SET name = 'other'")
    by_day = copy_owner.json("reconcile")
    assert by_day["equal"] is True
    assert "bills.net" in by_day["compared"]
    assert "bill_items" not in by_day["compared"]
    assert "--deep" in copy_owner("reconcile").stdout, "the sentence does not say that lines were not compared"
    deep = copy_owner.json("reconcile", "--deep", status=3)
    assert (deep["equal"], "bill_items" in deep["compared"]) == (False, True)
    [found] = deep["tables"]
    assert (found["table"], found["missing"], found["extra"], found["fixed"]) == ("bill_items", 0, 0, False)
    assert found["different"] > 0
    assert "bill_items" in copy_owner("reconcile", "--deep", status=3).stdout
    assert copy_owner.json("reconcile", "--deep", "--fix")["tables"][0]["fixed"]
    assert copy_owner.json("reconcile", "--deep")["equal"]
    copy_owner("pull", "--then", python(THEN, "runs"))
    assert (copy_owner.folder / "runs").exists(), "the command was not run for the repaired rows"


def test_a_lost_table_is_reported_and_a_full_pull_repairs_every_table(copy_owner: CopyOwner) -> None:
    copy_owner("pull")
    copy_owner.damage("DELETE FROM bill_items")
    by_day = copy_owner.json("reconcile", status=3)
    assert (by_day["equal"], by_day["lostTables"]) == (False, ["bill_items"])
    assert "lost rows or columns of bill_items" in copy_owner("reconcile", status=3).stdout
    assert "lost rows or columns of bill_items" in copy_owner("pull").stderr
    copy_owner.damage("UPDATE bill_items SET bill_id = bill_id || ' gone'")
    assert copy_owner.json("pull", "--full")["strayRowsRemoved"] > 0
    assert copy_owner.json("reconcile", "--deep")["equal"]


def test_a_difference_is_reported_and_repaired_and_is_a_change_that_the_command_is_run_for(
    copy_owner: CopyOwner,
) -> None:
    sold = r.bill(copy_owner.branch, closedAt="2025-12-24T12:00:00+07:00", amounts={"net": 120.5})
    copy_owner.service.load(sold)
    copy_owner("pull", "--then", "true")
    copy_owner.damage("DELETE FROM bills WHERE bill_date = '2025-12-24'")
    shown = copy_owner("reconcile", status=3).stdout
    assert "2025-12-24" in shown
    assert "120.50" in shown
    [difference] = copy_owner.json("reconcile", status=3)["differences"]
    assert (difference["missing"], difference["service"]["net"], difference["copy"]["count"]) == (1, "120.50", 0)
    assert "It was fixed" in copy_owner("reconcile", "--fix").stdout
    assert "no differences" in copy_owner("reconcile").stdout
    copy_owner("pull", "--then", python(THEN, "runs"))
    assert (copy_owner.folder / "runs").read_text() == "0\n"


def test_a_target_that_was_never_pulled_is_not_a_copy(copy_owner: CopyOwner) -> None:
    copy_owner("reconcile", "--deep", "--since", "2025-01-01", status=2)
    assert "Run `counterfoil pull` first" in copy_owner("reconcile", status=1).stderr
    assert not (copy_owner.folder / "copy.sqlite").exists(), "reconcile must not create a target"
    copy_owner.key_file.write_text(UNKNOWN_KEY)
    copy_owner("pull", status=1)
    assert "Run `counterfoil pull` first" in copy_owner("reconcile", status=1).stderr


@pytest.mark.parametrize("words", [(), ("--deep",)], ids=["days", "rows"])
def test_a_copy_whose_first_pull_has_not_finished_is_not_reported_as_equal(
    copy_owner: CopyOwner, words: tuple[str, ...]
) -> None:
    copy_owner.take_key(per_min=1000, per_day=8)
    copy_owner("pull", "--limit", 2, status=4)
    copy_owner.service.clock.advance(86_400)
    told = copy_owner.json("reconcile", *words, status=3)
    assert (told["equal"], told["unread"]) == (False, [copy_owner.branch["id"]])
    result = copy_owner("reconcile", *words, status=3)
    assert "is not complete yet" in result.stderr
    assert result.stdout == ""
    copy_owner.damage("DELETE FROM bills", "DELETE FROM shops")
    compared = copy_owner.json("reconcile", *words, status=3)
    assert (compared["equal"], compared["unread"]) == (False, [])


@pytest.mark.parametrize("words", [(), ("--deep",)])
def test_a_spent_quota_ends_a_comparison_without_a_result(copy_owner: CopyOwner, words: tuple[str, ...]) -> None:
    copy_owner.take_key(per_min=1000, per_day=7)
    copy_owner("pull")
    for _ in range(4):
        result = CliRunner().invoke(program, copy_owner.words("reconcile", *words))
    assert result.exit_code == 4
    assert "quota_exceeded" in result.stderr
    assert result.stdout == ""


# --- who can read a copy ----------------------------------------------------------------------


@pytest.mark.parametrize("target", ["new/copy.duckdb", "new/copy.sqlite", "new/parquet/"])
def test_only_the_owner_can_read_a_copy(copy_owner: CopyOwner, tmp_path: Path, target: str) -> None:
    before = os.umask(0o022)
    try:
        copy_owner.take_key(personal_data=True, **PLENTY)
        copy_owner("pull", "--to", target)
    finally:
        assert os.umask(before) == 0o022
    modes = {path: path.stat().st_mode & 0o777 for path in [tmp_path / "new", *(tmp_path / "new").rglob("*")]}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


def test_a_copy_that_others_can_read_gives_a_warning(copy_owner: CopyOwner) -> None:
    copy_owner("pull", "--to", "copy.sqlite")
    assert "other users" not in copy_owner("pull", "--to", "copy.sqlite").stderr
    (copy_owner.folder / "copy.sqlite").chmod(0o644)
    assert "run `chmod go-rwx copy.sqlite`" in copy_owner("pull", "--to", "copy.sqlite").stderr


def test_pull_says_how_many_bills_have_no_business_day_and_what_to_do(service: RunningService, tmp_path: Path) -> None:
    owner = CopyOwner(service, r.branch(closingTime=None), tmp_path)
    sales = r.bill(owner.branch), r.bill(owner.branch), r.bill(owner.branch, closedAt=None)
    service.load(owner.branch, *sales)
    service.tick()
    first = owner("pull")
    assert "2 bills of this run came without a business day" in first.stderr
    assert "counterfoil shops set --missing --closing-time HH:MM" in first.stderr
    # They are named once, and not again by a run that reads nothing.
    assert owner.json("pull")["billsWithoutBusinessDay"] == 0
