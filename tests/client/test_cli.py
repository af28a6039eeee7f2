"""`counterfoil pull` and `counterfoil reconcile`: options, summaries and exit statuses."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result

import records as r
from breakage import table_missing
from client.pulling import PLENTY
from client.targets import postgres_url
from counterfoil.cli.main import program
from counterfoil.cli.remote import duration
from counterfoil.client.retry import TRIES
from house import House, free_port

PYTHON = (sys.executable, "-m", "counterfoil")


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("COUNTERFOIL_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


class Keeper:
    """Somebody who keeps a copy of a branch."""

    def __init__(self, house: House, branch: r.Record, folder: Path) -> None:
        self.house = house
        self.branch = branch
        self.folder = folder
        self.key_file = folder / "key"
        self.take_key(**PLENTY)
        self._runner = CliRunner()

    def take_key(self, **terms: Any) -> None:
        self.key_file.write_text(self.house.key(franchise=self.branch["franchiseId"], **terms) + "\n")
        self.house.clock.advance(1)

    def words(self, command: str, *words: object) -> list[str]:
        return [command, "--url", f"{self.house.url}/ext/v1", "--key-file", str(self.key_file), *map(str, words)]

    def __call__(self, command: str, *words: object, status: int = 0) -> Result:
        return self.bare(*self.words(command, *words), status=status)

    def bare(self, *words: str, status: int = 0, stdin: str | None = None) -> Result:
        result = self._runner.invoke(program, list(words), input=stdin)
        assert result.exit_code == status, result.output
        assert "Traceback" not in result.output
        return result

    def json(self, command: str, *words: object, status: int = 0) -> Any:
        return json.loads(self(command, *words, "--json", status=status).stdout)


@pytest.fixture
def keeper(house: House, branch: r.Record, tmp_path: Path) -> Keeper:
    return Keeper(house, branch, tmp_path)


# --- pull ------------------------------------------------------------------------------


def test_a_pull_tells_what_it_did(keeper: Keeper) -> None:
    told = keeper("pull").stdout
    assert "counterfoil.duckdb" in told
    assert "1 of 1 read" in told
    assert "19 written" in told
    assert "left today" in told
    assert (keeper.folder / "counterfoil.duckdb").exists()


def test_a_pull_tells_machines_in_json(keeper: Keeper) -> None:
    told = keeper.json("pull", "--to", "x.duckdb")
    assert (told["status"], told["target"], told["billsWritten"], told["membersWritten"]) == ("ok", "x.duckdb", 19, 6)
    assert told["requestsLeft"] == 1_000_000 - told["requests"]
    assert keeper.json("pull", "--to", "x.duckdb")["billsWritten"] == 0


@pytest.mark.parametrize("name", ["there/", "old"])
def test_a_folder_is_a_target_for_parquet(keeper: Keeper, name: str) -> None:
    (keeper.folder / "old").mkdir()
    keeper("pull", "--to", name)
    assert (keeper.folder / name / "bills.parquet").exists()


def test_postgresql_is_a_target_and_its_password_is_not_shown(keeper: Keeper) -> None:
    url = postgres_url().replace("postgres@", "postgres:sesame@")
    told = keeper("pull", "--to", url)
    assert "sesame" not in told.output
    assert "postgresql://postgres@127.0.0.1" in told.stdout


def test_the_key_may_come_from_the_environment_or_standard_input(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = keeper.key_file.read_text()
    keeper.bare("pull", "--url", keeper.house.url, "--key-file", "-", stdin=key)
    monkeypatch.setenv("COUNTERFOIL_KEY", key)
    keeper.bare("pull", "--url", keeper.house.url)


def test_a_key_on_the_command_line_is_refused_and_not_repeated(keeper: Keeper) -> None:
    key = keeper.key_file.read_text().strip()
    result = keeper.bare("pull", "--url", keeper.house.url, "--key", key, status=2)
    assert "--key-file" in result.stderr
    assert key not in result.output


@pytest.mark.parametrize(
    "words",
    [
        ("--to", "copy.sqlite"),
        ("--to", "mysql://x/y"),
        ("--since", "yesterday"),
        ("--since", "2999-01-01"),
        ("--every", "5"),
        ("--every", "0s"),
        ("--every", "-5m"),
        ("--members-every", "daily"),
        ("--limit", "0"),
        ("--limit", "201"),
        ("--url", "nonsense"),
        ("--key-file", "missing"),
    ],
)
def test_misuse_is_one_sentence_and_status_2(keeper: Keeper, words: tuple[str, ...]) -> None:
    result = keeper("pull", *words, status=2)
    assert result.stderr.startswith("counterfoil: ")
    assert result.stderr.count("\n") == 1
    assert not list(keeper.folder.glob("*.duckdb"))


@pytest.mark.parametrize("content", ["", "\n", "two words", "ก"])
def test_a_file_without_a_key_is_misuse(keeper: Keeper, content: str) -> None:
    keeper.key_file.write_text(content)
    assert "key" in keeper("pull", status=2).stderr


def test_a_wrong_key_fails_with_what_the_service_said(keeper: Keeper) -> None:
    keeper.key_file.write_text("cf_live_unknownkey00_" + "x" * 40)
    result = keeper("pull", status=1)
    assert "invalid_key" in result.stderr
    assert "request " in result.stderr


def test_a_spent_quota_is_status_4_and_says_when_it_ends(keeper: Keeper) -> None:
    keeper.take_key(per_min=1000, per_day=8)
    told = keeper.json("pull", "--limit", 2, status=4)
    assert told["status"] == "quota"
    assert told["resumesAt"].endswith("T00:00:00+07:00")
    assert told["requests"] == 9
    result = keeper("pull", status=4)
    assert "quota_exceeded" in result.stderr
    assert "Run the same command to resume" in result.stderr


def test_a_service_that_is_away_is_status_5(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterfoil.client.retry.FIRST_PAUSE_SEC", 0.001)
    url = f"http://127.0.0.1:{free_port()}/ext/v1"
    result = keeper.bare("pull", "--url", url, "--key-file", str(keeper.key_file), status=5)
    assert "cannot be reached" in result.stderr
    assert TRIES == 8


def test_a_service_in_trouble_is_status_5_too(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterfoil.client.retry.FIRST_PAUSE_SEC", 0.001)
    keeper("pull")
    keeper.house.load(r.bill(keeper.branch))
    with table_missing(keeper.house, "books", "bills"):
        told = keeper.json("pull", status=5)
    assert told["status"] == "internal"
    keeper("pull")


def test_a_path_below_which_there_is_no_api_is_named(keeper: Keeper) -> None:
    words = ("--url", f"{keeper.house.url}/ext", "--key-file", str(keeper.key_file))
    result = keeper.bare("pull", *words, status=1)
    assert "/ext; its address most often ends in /ext/v1" in result.stderr


def test_a_user_in_the_url_would_displace_the_key_and_is_refused(keeper: Keeper) -> None:
    url = keeper.house.url.replace("http://", "http://me:sesame@")
    result = keeper.bare("pull", "--url", url, "--key-file", str(keeper.key_file), status=2)
    assert "no user and no password" in result.stderr
    assert "sesame" not in result.output


def test_a_password_that_would_be_taken_for_a_host_is_not_told(keeper: Keeper) -> None:
    result = keeper("pull", "--to", "postgresql://me:open@sesame@db.example.com/copy", status=2)
    assert "%40" in result.stderr
    assert "sesame" not in result.output


def test_another_address_is_refused_until_it_is_adopted(keeper: Keeper) -> None:
    keeper("pull")
    keeper.take_key(**PLENTY)
    assert "--adopt" in keeper("pull", status=1).stderr
    keeper("pull", "--adopt")
    keeper("pull")


def test_a_target_that_is_in_use_is_one_sentence(keeper: Keeper) -> None:
    (keeper.folder / "copy.duckdb").write_bytes(b"no database")
    result = keeper("pull", "--to", "copy.duckdb", status=1)
    assert result.stderr.startswith("counterfoil: cannot open copy.duckdb as a DuckDB file")


def test_a_missing_extra_is_named(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "counterfoil.client.sinks.duckdb")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    result = keeper("pull", status=1)
    assert "pip install 'counterfoil[pull]'" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(("written", "seconds"), [("30s", 30), ("5m", 300), ("12h", 43_200), ("1d", 86_400)])
def test_lengths_of_time_are_read(written: str, seconds: float) -> None:
    assert duration(written) == seconds


# --- again and again, and stopping -----------------------------------------------------


@contextmanager
def kept(keeper: Keeper, every: str) -> Iterator["subprocess.Popen[str]"]:
    """A pull that keeps running, as a process."""
    process = subprocess.Popen(
        [*PYTHON, *keeper.words("pull", "--every", every, "--json")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=keeper.folder,
    )
    yield process
    process.kill()
    process.communicate()


def told(process: "subprocess.Popen[str]") -> Any:
    assert process.stdout
    return json.loads(process.stdout.readline())


def test_a_pull_that_keeps_running_brings_what_comes_until_it_is_stopped(keeper: Keeper) -> None:
    with kept(keeper, "1s") as process:
        assert told(process)["billsWritten"] == 19
        keeper.house.load(r.bill(keeper.branch))
        later = [told(process), told(process)]
        assert sum(run["billsWritten"] for run in later) == 1
        assert {run["membersRead"] for run in later} == {0}
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130


def test_a_pull_that_is_told_to_stop_closes_its_copy_and_dies_of_it(keeper: Keeper) -> None:
    with kept(keeper, "1h") as process:
        told(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == -signal.SIGTERM
    assert not list(keeper.folder.glob("*.scratch"))


def test_the_file_can_be_read_between_two_runs(keeper: Keeper) -> None:
    with kept(keeper, "1h") as process:
        told(process)
        with duckdb.connect(str(keeper.folder / "counterfoil.duckdb"), read_only=True) as db:
            assert db.sql("FROM bills").shape[0] == 19


# --- reconcile ---------------------------------------------------------------------------


def test_a_copy_that_agrees_is_status_0(keeper: Keeper) -> None:
    keeper("pull")
    assert "matches the service" in keeper("reconcile").stdout
    assert keeper.json("reconcile")["equal"] is True


def test_a_removed_bill_is_named_and_mended(keeper: Keeper) -> None:
    gone = r.bill(keeper.branch, closedAt="2025-12-24T12:00:00+07:00", amounts={"net": 120.5})
    keeper.house.load(gone)
    keeper("pull")
    keeper.house.load(r.removal(gone))
    shown = keeper("reconcile", status=3).stdout
    assert "2025-12-24" in shown
    assert "120.50" in shown
    [difference] = keeper.json("reconcile", status=3)["differences"]
    assert (difference["removed"], difference["copy"]["net"], difference["service"]["count"]) == (1, "120.50", 0)
    assert "All were fixed" in keeper("reconcile", "--fix").stdout
    assert "matches the service" in keeper("reconcile").stdout


def test_a_target_that_was_never_pulled_is_no_copy(keeper: Keeper) -> None:
    assert "run `counterfoil pull` first" in keeper("reconcile", status=1).stderr
    assert not (keeper.folder / "counterfoil.duckdb").exists(), "a comparison makes no target"
    keeper.key_file.write_text("cf_live_unknownkey00_" + "x" * 40)
    keeper("pull", status=1)
    assert "run `counterfoil pull` first" in keeper("reconcile", status=1).stderr


def test_a_copy_that_was_not_read_to_its_end_is_not_called_equal(keeper: Keeper) -> None:
    keeper.take_key(per_min=1000, per_day=16)
    keeper("pull", "--limit", 2, status=4)
    keeper.take_key(**PLENTY)
    told = keeper.json("reconcile", status=1)
    assert (told["equal"], told["status"]) == (False, "failed")
    assert "--adopt" in told["error"]


def test_a_comparison_that_is_cut_short_tells_what_it_found(keeper: Keeper) -> None:
    keeper.take_key(per_min=1000, per_day=74)
    gone = r.bill(keeper.branch, closedAt="2025-12-24T12:00:00+07:00")
    keeper.house.load(gone)
    keeper("pull")
    keeper.house.load(r.removal(gone))
    told = keeper.json("reconcile", status=3)
    spent = keeper.json("reconcile", status=4)
    assert (spent["status"], spent["equal"]) == ("quota", False)
    assert spent["differences"] == told["differences"]
    assert 0 < spent["days"] < told["days"]


def test_a_spent_quota_ends_a_comparison_with_status_4(keeper: Keeper) -> None:
    keeper.take_key(per_min=1000, per_day=60)
    keeper("pull")
    for _ in range(3):
        result = keeper._runner.invoke(program, keeper.words("reconcile"))
    assert result.exit_code == 4
    assert "quota_exceeded" in result.stderr
