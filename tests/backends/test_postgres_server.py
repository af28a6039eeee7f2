"""Tests for behaviour specific to a PostgreSQL server: its schema, its roles, and responses while it is unavailable."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result
from msgspec import json

import servers
from counterfoil import bootstrap, settings
from counterfoil.backends.postgres.addresses import ConnectionLimits
from counterfoil.backends.postgres.admin_connections import checked_connection, connect
from counterfoil.backends.postgres.administration import ROLES, make_roles
from counterfoil.backends.postgres.pool import GATE_SEC, Pool
from counterfoil.domain.open_items import OpenItem
from counterfoil.ports import StoreMismatch, StoreUnavailable, StoreUnreachable
from counterfoil.program.main import program
from records import EVER, bill, shop
from running_service import SECRET, RunningService, free_port
from servers import Postgres

LIMITS = ConnectionLimits()

# These tests need a real server and take minutes, so they run only in `make test-long`.
pytestmark = pytest.mark.long


@pytest.fixture(params=[18, 16])
def server(request: pytest.FixtureRequest) -> Postgres:
    return servers.postgres(request.param)


@pytest.fixture
def own() -> Iterator[Postgres]:
    """A server that a test may kill."""
    server = Postgres(18)
    yield server
    server.remove()


# --- the schema ----------------------------------------------------------------


def test_bodies_are_stored_in_their_rows_uncompressed(server: Postgres, tmp_path: Path) -> None:
    database, url = server.fresh_database()
    of = shop()
    with closing(RunningService(tmp_path, store=url)) as service:
        service.load(of, bill(of, lines=[{"name": "Soup"}] * 40))
    ((stored, whole, outside),) = server.command(
        "SELECT pg_column_size(body), octet_length(body), pg_relation_size(reltoastrelid) "
        "FROM counterfoil.bills, pg_class WHERE pg_class.oid = 'counterfoil.bills'::regclass",
        database,
    )
    assert 4000 < whole <= stored <= whole + 8
    assert outside == 0


# --- roles ---------------------------------------------------------------------


@pytest.fixture
def shared(server: Postgres) -> dict[str, str]:
    """The addresses of a database, keyed by role: one for the owner, and one for a login in each of the three roles."""
    database, url = server.fresh_database()
    make_roles(url)
    make_roles(url)
    for role in ROLES:
        if not server.command(f"SELECT 1 FROM pg_roles WHERE rolname = 'a_{role}'"):  # noqa: S608
            server.command(f"CREATE ROLE a_{role} LOGIN IN ROLE {role}")
    return {"owner": url} | {role.split("_")[1]: server.url(database, f"a_{role}") for role in ROLES}


def run(url: str, *words: str, **variables: str) -> Result:
    """Run a command on the store with this address."""
    environment = {"COUNTERFOIL_STORE": url, "COUNTERFOIL_SECRET": SECRET} | variables
    return CliRunner().invoke(program, words, env=environment)


def check(url: str, name: str, **variables: str) -> dict[str, str]:
    """Return the status, the message and the advice of the last of the doctor's checks with this name."""
    checks = json.decode(run(url, "doctor", "--json", **variables).stdout)["checks"]
    found = [one for one in checks if one["check"] == name]
    return {part: str(value) for part, value in found[-1].items()} if found else {}


def assert_serves(store: str, folder: Path, key: str, bills: int) -> None:
    with closing(RunningService(folder / "serving", store=store)) as node:
        assert len(node.data("shops", key)) == bills
        assert len(node.data("changes", key)) == 2 * bills
        assert node.data("usage", key)["today"]["count"] == 3
        node.ledger.advance_horizon()


def test_each_role_can_do_its_work(shared: dict[str, str], tmp_path: Path) -> None:
    of = shop()
    with closing(RunningService(tmp_path / "loading", store=shared["loading"])) as loader:
        loader.load(of, bill(of))
    with closing(RunningService(tmp_path / "administration", store=shared["administration"])) as operator:
        key = operator.key(shop=of["id"])
    assert_serves(shared["serving"], tmp_path, key, bills=1)


@pytest.mark.parametrize("role", ["owner", "administration"])
def test_the_owner_and_the_administration_can_prune(shared: dict[str, str], tmp_path: Path, role: str) -> None:
    RunningService(tmp_path / "owner", store=shared["owner"]).close()
    pruned = run(shared[role], "prune", "--json")
    assert json.decode(pruned.stdout)["removals"] == 0
    assert ("cannot delete removals from the change feed" in pruned.stderr) is (role == "administration")


def test_after_init_a_node_serves_empty_lists_before_anything_is_loaded(shared: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(StoreMismatch, match="`counterfoil init` with the owner's login, or `counterfoil load`"):
        RunningService(tmp_path, store=shared["serving"])
    for login in ("serving", "loading", "administration"):
        assert "does not own the schema" in run(shared[login], "init").output
    assert [run(shared["owner"], "init").exit_code for _ in range(2)] == [0, 0]
    with closing(RunningService(tmp_path / "administration", store=shared["administration"])) as operator:
        key = operator.key(shop="sh_1")
        entries = bootstrap.store(operator.settings).reads().audit(10)
    assert {entry.act for entry in entries} == {"key_issued", "store_created"}
    assert_serves(shared["serving"], tmp_path, key, bills=0)


def test_init_without_a_secret_says_that_every_node_needs_the_one_it_created(
    shared: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = run(shared["owner"], "init", COUNTERFOIL_SECRET="").output
    assert "Every node and every loader needs the same secret" in said
    assert (tmp_path / "counterfoil-data" / "secret").exists()


def test_no_role_can_do_the_work_of_another(shared: dict[str, str]) -> None:
    for role, statement in (
        ("serving", "UPDATE bills SET id = ''"),
        ("serving", "DELETE FROM members"),
        ("serving", "UPDATE keys SET body = ''"),
        ("serving", "CREATE TABLE more (n integer)"),
        ("serving", "SELECT * FROM audit"),
        ("loading", "SELECT * FROM keys"),
        ("loading", "SELECT * FROM requests"),
        ("loading", "TRUNCATE bills"),
        ("loading", "INSERT INTO audit SELECT * FROM audit"),
        ("administration", "UPDATE bills SET id = ''"),
        ("administration", "DELETE FROM keys"),
        ("administration", "UPDATE audit SET actor = ''"),
        ("administration", "DELETE FROM audit"),
        ("administration", "TRUNCATE audit"),
    ):
        with connect(shared[role]) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement.encode())


def test_not_even_the_owner_can_empty_the_audit(shared: dict[str, str]) -> None:
    with connect(shared["owner"]) as connection, pytest.raises(psycopg.errors.RaiseException, match="audit entries"):
        connection.execute("TRUNCATE audit")


def test_a_backup_is_recorded_by_an_administrator_and_its_age_is_known_to_a_node(shared: dict[str, str]) -> None:
    def record(role: str, name: str = "base-1") -> Result:
        return run(shared[role], "backup", "--record", name, "--json")

    def age_known_to_a_node() -> object:
        return json.decode(run(shared["serving"], "status", "--json").stdout)["lastBackupAt"]

    assert record("loading").exit_code == 1
    assert age_known_to_a_node() is None
    assert json.decode(record("administration").stdout)["createdAt"] == age_known_to_a_node()
    assert record("administration", "\x1b[31m").exit_code == 1


def test_only_an_administrator_resolves_open_items(shared: dict[str, str], tmp_path: Path) -> None:
    def resolve(role: str) -> Result:
        return run(shared[role], "loads", "resolve", "1", "--json")

    with closing(RunningService(tmp_path / "loading", store=shared["loading"])) as loader:
        loader.ledger.add_items([OpenItem(identity="1-bills.gz", kind="quarantined", files={"bills.gz": 0})])
    assert (resolve("loading").exit_code, resolve("serving").exit_code) == (1, 1)
    assert json.decode(resolve("administration").stdout) == {"resolved": [1]}
    assert json.decode(run(shared["serving"], "loads", "open", "--json").stdout) == []


def test_the_doctor_warns_about_serving_with_an_owner_or_loader_login(server: Postgres, shared: dict[str, str]) -> None:
    told = check(shared["owner"], "rights")
    assert told["status"] == "warn"
    assert "owns the schema" in told["message"]
    assert "counterfoil_serving" in told["advice"]
    if not server.command("SELECT 1 FROM pg_roles WHERE rolname = 'does_it_all'"):
        server.command("CREATE ROLE does_it_all LOGIN IN ROLE counterfoil_serving, counterfoil_loading")
    both = check(shared["serving"].replace("a_counterfoil_serving", "does_it_all"), "rights")
    assert both["status"] == "warn"
    assert both["message"].endswith("it can write the books.")


def test_the_doctor_accepts_a_login_with_one_role(shared: dict[str, str]) -> None:
    for role, work in (("serving", "serve"), ("loading", "load"), ("administration", "issue keys")):
        told = check(shared[role], "rights")
        assert told["status"] == "ok"
        assert told["message"] == f"The login a_counterfoil_{role} can {work} and nothing else."


def test_the_doctor_checks_the_secret_and_changes_nothing(shared: dict[str, str], tmp_path: Path) -> None:
    def told(secret: str = SECRET) -> dict[str, str]:
        secret_file = str(tmp_path / "secret")
        return check(shared["owner"], "secret", COUNTERFOIL_SECRET=secret, COUNTERFOIL_SECRET_FILE=secret_file)

    assert told() == {}
    RunningService(tmp_path / "node", store=shared["owner"]).close()
    assert (told()["status"], told()["message"]) == ("ok", "The secret is the one that this store was built with.")
    other = told("another deployment's secret, which is long")
    assert (other["status"], other["message"]) == ("fail", "The secret is not the one that this store was built with.")
    assert told("")["status"] == "fail"
    assert not (tmp_path / "secret").exists()


def test_the_doctor_reports_an_unavailable_meter(shared: dict[str, str]) -> None:
    assert check(shared["owner"], "meter", COUNTERFOIL_METER=servers.valkey().url)["status"] == "ok"
    assert check(shared["owner"], "meter", COUNTERFOIL_METER="redis://127.0.0.1:1/0")["status"] == "fail"


def test_a_node_whose_login_may_not_serve_does_not_start(shared: dict[str, str], tmp_path: Path) -> None:
    RunningService(tmp_path / "node", store=shared["owner"]).close()
    refused = run(shared["loading"], "serve", "--port", str(free_port()), "--admin-port", "0")
    assert refused.exit_code == 1
    assert "a_counterfoil_loading has no permission to serve" in str(refused.exception) + refused.output


# --- while the server is unavailable ---------------------------------------------


def test_no_secret_is_generated_while_an_existing_one_might_be_unreadable(tmp_path: Path) -> None:
    away = settings.load({"store": "postgresql://u@127.0.0.1:1/db", "secret_file": str(tmp_path / "secret")}, {})
    with pytest.raises(StoreUnavailable):
        bootstrap.deployment_secret(away)
    assert not (tmp_path / "secret").exists()


def test_a_killed_server_causes_503_and_is_found_again_automatically(own: Postgres, tmp_path: Path) -> None:
    service = RunningService(tmp_path, store=own.fresh_database()[1])
    of = shop()
    service.load(of, bill(of))
    key = service.key(shop=of["id"])
    before = service.data("transactions", key, shopId=of["id"], updatedSince=EVER)
    # A load flushes the write-ahead log to disk, including all earlier counts.
    service.load(shop())
    own.kill()
    service.clock.advance(1)
    answer = service.get("shops", key)
    assert (answer.status_code, answer.json()["error"]) == (503, "auth_unavailable")
    with pytest.raises(StoreUnreachable):
        service.ledger.advance_horizon()
    own.start()
    assert service.data("transactions", key, shopId=of["id"], updatedSince=EVER) == before
    assert service.ledger.advance_horizon() == service.clock.now_ms()
    assert service.data("usage", key)["today"]["count"] == 3
    service.close()


def test_a_frozen_server_delays_a_request_by_its_time_limit_at_most(own: Postgres, tmp_path: Path) -> None:
    service = RunningService(tmp_path, store=own.fresh_database()[1])
    key = service.key(shop="s")
    service.get("shops", key)
    own.freeze_all(signal.SIGSTOP)
    began = time.monotonic()
    answer = service.get("shops", key)
    assert answer.status_code == 503
    assert time.monotonic() - began < 2 * GATE_SEC
    own.freeze_all(signal.SIGCONT)
    assert service.get("shops", key).status_code == 200
    service.close()


def test_a_connection_that_is_being_made_when_its_pool_is_closed_is_not_left_open() -> None:
    database, url = servers.postgres(18).fresh_database()

    async def close_meanwhile() -> None:
        pool = Pool(url)
        asked = asyncio.create_task(pool.rows("SELECT 1"))
        await asyncio.sleep(0)
        pool.close()
        assert [tuple(row) for row in await asked] == [(1,)]
        sessions = f"SELECT 1 FROM pg_stat_activity WHERE datname = '{database}'"  # noqa: S608 - a name of our own
        async with asyncio.timeout(5):
            while await asyncio.to_thread(servers.postgres(18).command, sessions):
                pass

    asyncio.run(close_meanwhile())


@pytest.mark.parametrize(
    "limits", [{}, {"pool_size": 2, "pool_wait_ms": 100, "statement_timeout_ms": 600}], ids=["defaults", "settings"]
)
def test_too_many_concurrent_callers_are_refused_within_the_limits_and_nothing_leaks(
    tmp_path: Path, limits: dict[str, int]
) -> None:
    database, url = servers.postgres(18).fresh_database()
    service = RunningService(tmp_path, store=url, meter=servers.valkey().url, **limits)
    expected = ConnectionLimits(**limits)
    of = shop()
    service.load(of, bill(of))
    key = service.key(shop=of["id"], per_min=1000)
    assert service.data("shops", key)
    with psycopg.connect(url) as blocking, ThreadPoolExecutor(4 * expected.pool_size) as crowd:
        blocking.execute("LOCK TABLE counterfoil.shops IN ACCESS EXCLUSIVE MODE")
        began = time.monotonic()
        answers = list(crowd.map(lambda _: service.get("shops", key), range(4 * expected.pool_size)))
        took = time.monotonic() - began
        blocking.rollback()
    # Statements on all connections exceed their time limit. The other requests find no free connection.
    errors = Counter(answer.json()["error"] for answer in answers)
    assert errors == {"internal": expected.pool_size, "auth_unavailable": 3 * expected.pool_size}
    assert expected.statement_timeout_ms / 1000 <= took < LIMITS.answer_sec + LIMITS.pool_wait_sec
    allowances = {answer.status_code: "x-ratelimit-remaining" in answer.headers for answer in answers}
    assert allowances == {500: True, 503: False}
    assert service.data("shops", key)
    ((held,),) = servers.postgres(18).command(
        f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}'"  # noqa: S608
    )
    # The loader and the operator hold one connection each.
    assert held <= expected.pool_size + 2
    service.close()


def test_a_server_that_accepts_no_writes_counts_as_unreachable(server: Postgres) -> None:
    """After a failover, the former primary is a replica. Another server may accept the write."""
    database, url = server.fresh_database()
    server.command(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    with pytest.raises(StoreUnreachable, match="read-only transaction"), checked_connection(url) as connection:
        connection.execute("DELETE FROM keys")


def test_the_connect_timeout_is_a_setting() -> None:
    with socket.socket() as silent:
        # The socket accepts connections but never answers.
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"postgresql://postgres@127.0.0.1:{silent.getsockname()[1]}/counterfoil"
        began = time.monotonic()
        with pytest.raises(StoreUnreachable):
            asyncio.run(Pool(url, limits=ConnectionLimits(connect_timeout_ms=200)).rows("SELECT 1"))
        assert 0.2 <= time.monotonic() - began < LIMITS.connect_sec


def test_a_worker_needs_one_driver_and_a_command_the_other(tmp_path: Path) -> None:
    """Each import is tested in a new process, because this process has imported both drivers."""
    url = servers.postgres(18).fresh_database()[1]
    RunningService(tmp_path, store=url).close()
    for part, driver in (("service(found, print)", "asyncpg"), ("store(found).usage()", "psycopg")):
        script = (
            "import sys; from counterfoil import bootstrap, settings; found = settings.load(); "
            f"bootstrap.{part}.close(); print(*({{'asyncpg', 'psycopg'}} & set(sys.modules)))"
        )
        environment = {"COUNTERFOIL_STORE": url, "COUNTERFOIL_SECRET": SECRET, "PYTHONPATH": os.pathsep.join(sys.path)}
        run = subprocess.run(
            [sys.executable, "-c", script], env=environment, cwd=tmp_path, check=True, capture_output=True, text=True
        )
        assert run.stdout.split() == [driver]
