"""Tests for `counterfoil migrate --distribute`, and for the ledger, the roles and `counterfoil copy` afterwards."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from citus.cluster import cluster
from cli.command import Command
from counterfoil.backends.postgres.citus import DISTRIBUTED, DistributedLedger, open_ledger
from counterfoil.ports import StoreMismatch, StoreUnavailable
from ports.open_store import PSEUDONYMS
from records import EVER, Record, base, bills, branch, member
from running_service import RunningService
from waiting import until

_END_SESSIONS = """
    SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'counterfoil'
"""
_WAITING = """
    SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'counterfoil' AND wait_event_type = 'Lock'
"""


def at(url: str) -> Command:
    return Command(url)


def group() -> list[Record]:
    return [branch(franchiseId="f") for _ in range(5)]


def records_of(shops: list[Record], number: int) -> list[Record]:
    return [record for of in shops for record in (of, base(of), member(of), *bills(of, number))]


def answers(service: RunningService, key: str, shops: list[Record]) -> list[object]:
    lists = [service.data("transactions", key, shopId=of["id"], updatedSince=EVER) for of in shops]
    return [*lists, *(service.data("members", key, providerId=of["providerId"]) for of in shops)]


def test_tables_that_hold_bills_are_distributed_and_answer_as_before(tmp_path: Path) -> None:
    url = cluster().undistributed_database()[1]
    shops = group()
    with closing(RunningService(tmp_path, store=url)) as service:
        service.load(*records_of(shops, 20))
        key = service.key(franchise="f", per_min=1000)
        before = answers(service, key, shops)
    assert at(url).json("migrate", "--distribute")["distributed"] == list(DISTRIBUTED)
    assert "already distributed" in at(url)("migrate", "--distribute").stdout
    with closing(RunningService(tmp_path, store=url)) as service:
        assert isinstance(service.ledger, DistributedLedger)
        assert answers(service, key, shops) == before


def test_tables_in_use_are_not_distributed(tmp_path: Path) -> None:
    url = cluster().undistributed_database()[1]
    with closing(RunningService(tmp_path, store=url)):
        assert "Stop every `serve` and `load`" in at(url)("migrate", "--distribute", status=1).output
    with closing(psycopg.connect(url)) as connection:
        assert not connection.execute("SELECT count(*) FROM citus_tables").fetchone()[0]  # type: ignore[index]


def test_a_ledger_that_had_no_connection_while_tables_were_distributed_refuses_to_work() -> None:
    """Such a ledger would advance the horizon beyond rows that are not visible yet."""
    database, url = cluster().undistributed_database()
    with closing(open_ledger(url, PSEUDONYMS.fingerprint())) as ledger:
        cluster().coordinator.command(_END_SESSIONS, database)
        at(url)("migrate", "--distribute")
        with pytest.raises(StoreUnavailable):
            ledger.advance_horizon()
        with pytest.raises(StoreMismatch, match="Restart the program"):
            ledger.advance_horizon()


def test_a_ledger_that_connects_while_tables_are_distributed_waits_until_they_are() -> None:
    database, url = cluster().undistributed_database()
    with psycopg.connect(cluster().coordinator.url(database)) as distributing:
        distributing.execute("ALTER TABLE counterfoil.horizon ADD COLUMN taken bigint NOT NULL DEFAULT 0")
        with ThreadPoolExecutor(1) as other:
            opening = other.submit(open_ledger, url, PSEUDONYMS.fingerprint())
            until(lambda: cluster().coordinator.command(_WAITING, database), "the ledger waited")
            distributing.commit()
            with pytest.raises(StoreMismatch, match="Restart the program"):
                opening.result()


@pytest.fixture
def logins(tmp_path: Path) -> dict[str, str]:
    """The addresses of a distributed store, keyed by role. Each role also has a folder."""
    database, url = cluster().undistributed_database()
    at(url)("migrate", "--distribute", "--roles")
    found = {}
    for work in ("serving", "loading", "administration"):
        (tmp_path / work).mkdir()
        login = f"{database}_{work}"
        cluster().coordinator.command(f"CREATE ROLE {login} LOGIN IN ROLE counterfoil_{work}", database)
        found[work] = f"postgresql://{login}@{url.partition('@')[2]}"
    return found


def test_each_role_does_its_work_on_distributed_tables(tmp_path: Path, logins: dict[str, str]) -> None:
    shops = group()
    with closing(RunningService(tmp_path / "loading", store=logins["loading"])) as loader:
        loader.load(*records_of(shops, 3))
    with closing(RunningService(tmp_path / "administration", store=logins["administration"])) as office:
        key = office.key(franchise="f", per_min=1000)
    with closing(RunningService(tmp_path / "serving", store=logins["serving"])) as serving:
        serving.clock.advance(60)
        assert serving.ledger.advance_horizon() == serving.clock.now_ms()
        assert [len(found) for found in answers(serving, key, shops)] == [3] * 5 + [1] * 5  # type: ignore[arg-type]


def test_the_ticker_publishes_for_a_dead_loader_with_the_permissions_of_the_serving_role(
    tmp_path: Path, logins: dict[str, str]
) -> None:
    with closing(RunningService(tmp_path / "loading", store=logins["loading"])) as loader:
        loader.load(*records_of(group(), 1))
        horizon = loader.ledger.advance_horizon()
        with psycopg.connect(logins["loading"], autocommit=True) as dying:
            dying.execute("UPDATE counterfoil.horizon SET taken = at + 5, writer = citus_backend_gpid()")
    with closing(RunningService(tmp_path / "serving", store=logins["serving"])) as serving:
        assert serving.ledger.advance_horizon() == horizon + 5


def test_an_embedded_store_is_not_copied_into_distributed_tables(tmp_path: Path) -> None:
    _, url = cluster().undistributed_database()
    with closing(RunningService(tmp_path)) as embedded:
        embedded.load(*records_of(group(), 1))
        source = f"sqlite:{embedded.settings.store}"
        at(url)("migrate", "--distribute")
        refused = at(url).bare("copy", "--from", source, "--to", url, status=1)
    assert "the target's tables are distributed with Citus" in refused.output
