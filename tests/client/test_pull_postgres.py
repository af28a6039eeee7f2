"""Tests for a copy in a real PostgreSQL database."""

import psycopg
import pytest

import records as r
from client.pulled_copy import Copy, assert_equal
from client.targets import Target, postgres_url
from counterfoil.client.errors import CopyMismatch, Refusal
from counterfoil.client.sinks import SinkError
from counterfoil.client.sinks.postgres import PostgresSink
from running_service import free_port

# These tests need a real server and take minutes, so they run only in `make test-long`.
pytestmark = pytest.mark.long


@pytest.fixture
def url() -> str:
    return postgres_url()


@pytest.fixture
def target(url: str) -> Target:
    return lambda: PostgresSink(url)


def test_columns_have_the_types_that_a_data_engineer_expects(copy: Copy) -> None:
    copy.pull()
    rows = copy.rows("SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'bills'")
    types = dict(rows)
    assert (types["net"], types["updated_at"], types["bill_date"]) == ("numeric", "timestamp with time zone", "date")
    assert types["order_ids"] == "ARRAY"


def test_a_second_pull_into_the_same_schema_is_refused_in_one_sentence(copy: Copy, url: str) -> None:
    class Impatient(PostgresSink):
        LOCK_WAIT = "SET lock_timeout = '50ms'"

    sink = copy.target()
    with pytest.raises(SinkError, match="another pull or reconcile is using"):
        Impatient(url)
    sink.close()
    Impatient(url).close()


def test_copies_in_two_schemas_of_one_database_are_separate(url: str, copy: Copy) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA pos")
    other = Copy(copy.service, copy.key, lambda: PostgresSink(f"{url}?options=-csearch_path%3Dpos"))
    copy.pull()
    other.pull()
    copy.load(r.bill(copy.branch))
    other.pull()
    assert_equal(other)
    assert len(copy.held()["bills"]) == len(other.held()["bills"]) - 1


def test_a_connection_that_breaks_leaves_the_copy_as_it_was(copy: Copy, url: str) -> None:
    copy.pull()
    before = copy.held()
    copy.load(r.bill(copy.branch))

    class Cut(PostgresSink):
        def save_state(self, state: bytes) -> None:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                    "AND datname = current_database()"
                )
            super().save_state(state)

    with pytest.raises(SinkError, match="PostgreSQL: "):
        Copy(copy.service, copy.key, lambda: Cut(url)).pull()
    assert copy.held() == before
    copy.pull()
    assert_equal(copy)


def test_a_pull_with_a_wrong_key_creates_no_tables(url: str, copy: Copy) -> None:
    tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE of_somebody_else (id integer)")
        with pytest.raises(Refusal, match="invalid_key"):
            Copy(copy.service, "cf_live_unknownkey00_" + "x" * 40, copy.target).pull()
        assert connection.execute(tables).fetchall() == [("of_somebody_else",)]
        with pytest.raises(CopyMismatch, match="there is no copy to compare"):
            copy.reconcile()
        assert connection.execute(tables).fetchall() == [("of_somebody_else",)]
    copy.pull()
    assert_equal(copy)


def test_an_unavailable_server_is_reported_in_one_sentence() -> None:
    with pytest.raises(SinkError, match="cannot connect to PostgreSQL"):
        PostgresSink(f"postgresql://nobody@127.0.0.1:{free_port()}/none")
