"""Imports from a POS database on PostgreSQL miss nothing, in whatever order transactions commit."""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

import servers
from counterfoil.ingest.import_state import StateFile
from importing.pos_database import MAPPING, TABLES, PosImport, bills_in

pytestmark = pytest.mark.xdist_group("postgres")

BY_TRANSACTION = MAPPING.replace("state, updated FROM", "state, written FROM").replace(
    'watermark = "updated"\noverlap = "10 minutes"', 'watermark = "written"\nkind = "xid"'
)


@pytest.fixture
def url() -> Iterator[str]:
    """An empty database with the tables of a POS."""
    server = servers.postgres(18)
    name = "pos_source"
    server.command(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    server.command(f"CREATE DATABASE {name}")
    for table in TABLES:
        server.command(table.format(time="timestamptz"), name)
    server.command("ALTER TABLE bills ADD written xid8 NOT NULL DEFAULT pg_current_xact_id()", name)
    yield server.url(name)
    server.command(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def pos(tmp_path: Path, url: str) -> PosImport:
    return PosImport(tmp_path, url)


def sell(url: str, number: int, updated: str = "now()", state: str = "paid") -> None:
    with psycopg.connect(url) as connection:
        write_bill(connection, number, updated, state)


def write_bill(connection: "psycopg.Connection[tuple[object, ...]]", number: int, updated: str, state: str) -> None:
    connection.execute(b"DELETE FROM bills WHERE no = %s", (number,))
    values = f"({number}, '2026-11-14 18:05:00+07', 240.10, '{state}', {updated})"
    connection.execute(f"INSERT INTO bills VALUES {values}".encode())  # noqa: S608 - the values come from the tests
    connection.execute(b"DELETE FROM bill_lines WHERE bill_no = %s", (number,))
    connection.execute(b"INSERT INTO bill_lines VALUES (%s, 'Khao soi', 2, 240.10)", (number,))
    connection.execute(b"DELETE FROM bill_payments WHERE bill_no = %s", (number,))
    connection.execute(b"INSERT INTO bill_payments VALUES (%s, 'Cash', 240.10)", (number,))


def test_the_first_import_reads_everything_and_the_next_only_new_or_changed_bills(pos: PosImport, url: str) -> None:
    sell(url, 1, "now() - interval '3 hours'")
    sell(url, 2, "now() - interval '2 hours'")
    sell(url, 9, state="100% open")
    assert pos.run()["added"] == 3
    sell(url, 2, state="void")
    sell(url, 3)
    told = pos.run()
    assert (told["added"], told["changed"], told["import"]["rejected"]) == (1, 1, 0)
    assert bills_in(told) == 2


def test_a_bill_has_the_lines_and_payments_of_the_same_snapshot(pos: PosImport, url: str, tmp_path: Path) -> None:
    sell(url, 1)
    out = tmp_path / "records.ndjson"
    pos.command.bare("import", "--format", "database", "--url", url, "--mapping", pos.mapping, "-o", out)
    assert '"lines":[{"name":"Khao soi","qty":"2.000","total":"240.10"}]' in out.read_text("utf-8")
    assert '"payments":[{"name":"Cash","amount":"240.10"}]' in out.read_text("utf-8")
    assert '"closedAt":"2026-11-14T11:05:00+00:00"' in out.read_text("utf-8")


def test_a_transaction_that_commits_after_later_ones_were_read_is_not_missed(pos: PosImport, url: str) -> None:
    with psycopg.connect(url) as slow:
        # `now()` returns the start of the transaction, so bill 1 has an earlier time than bill 2.
        write_bill(slow, 1, "now()", "paid")
        sell(url, 2, "clock_timestamp()")
        assert bills_in(pos.run()) == 1
        slow.commit()
    told = pos.run()
    assert (told["added"], bills_in(told)) == (1, 2)


def test_transaction_ids_as_the_watermark_need_no_overlap_and_no_clock(tmp_path: Path, url: str) -> None:
    pos = PosImport(tmp_path, url, BY_TRANSACTION)
    sell(url, 1)
    assert bills_in(pos.run()) == 1
    with psycopg.connect(url) as slow:
        write_bill(slow, 2, "now() - interval '1 year'", "paid")
        sell(url, 3)
        assert bills_in(pos.run()) == 1
        slow.commit()
    assert pos.run()["added"] == 1
    assert bills_in(pos.run()) == 0


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
@pytest.mark.parametrize("kind", ["time", "xid"])
def test_however_transactions_and_imports_interleave_the_store_ends_up_like_the_database(
    tmp_path: Path, url: str, kind: str, seed: int
) -> None:
    pos = PosImport(tmp_path, url, BY_TRANSACTION if kind == "xid" else MAPPING)
    chance = random.Random(seed)  # noqa: S311 - a schedule, not a secret
    with ExitStack() as stack:
        idle = [stack.enter_context(psycopg.connect(url)) for _ in range(4)]
        # Each till writes different bills, so that no till waits for a row lock.
        numbers = {id(till): range(first, 100, 4) for first, till in enumerate(idle)}
        busy: list[psycopg.Connection[tuple[object, ...]]] = []
        for _ in range(40):
            step = chance.random()
            if step < 0.5 and idle:
                till = idle.pop(chance.randrange(len(idle)))
                write_bill(till, chance.choice(numbers[id(till)]), "now()", chance.choice(["paid", "void"]))
                busy.append(till)
            elif step < 0.8 and busy:
                till = busy.pop(chance.randrange(len(busy)))
                till.commit()
                idle.append(till)
            else:
                pos.run()
        for till in busy:
            till.commit()
    pos.run()
    told = pos.run("--full")
    assert (told["added"], told["changed"]) == (0, 0)
    assert told["unchanged"] == bills_in(told) + 1 > 5


def test_a_bill_with_the_sum_of_those_before_it_is_no_row_of_totals(pos: PosImport, url: str) -> None:
    for number, state in enumerate(["paid", "void", "void", "void", "paid"], start=1):
        sell(url, number, state=state)
    told = pos.run()
    assert (bills_in(told), told["import"]["rejected"]) == (5, 0)


def test_a_till_whose_clock_is_ahead_does_not_hide_the_others(pos: PosImport, url: str) -> None:
    sell(url, 1, "now() + interval '2 days'")
    pos.run()
    sell(url, 2)
    assert pos.run()["added"] == 1


def test_a_row_without_a_watermark_is_read_every_time(pos: PosImport, url: str) -> None:
    sell(url, 1, "now() - interval '1 day'")
    sell(url, 2, "NULL")
    pos.run()
    sell(url, 3)
    told = pos.run()
    assert (told["added"], told["unchanged"]) == (1, 2 + 1)


def test_the_state_is_not_advanced_while_a_row_is_rejected(pos: PosImport, url: str) -> None:
    sell(url, 1)
    sell(url, 2, "now() - interval '3 hours'", state="unheard of")
    told = pos.run(status=3)
    assert told["import"]["reasons"] == {"unreadable_value": 1}
    assert not pos.state.exists()
    sell(url, 2, "now() - interval '3 hours'", state="paid")
    assert pos.run()["added"] == 1
    assert pos.state.exists()


def test_the_state_advances_past_rejected_rows_with_skip_rejected(pos: PosImport, url: str) -> None:
    sell(url, 1, state="unheard of")
    pos.run("--skip-rejected", status=3)
    assert pos.state.exists()


def test_the_state_is_not_advanced_if_the_load_fails(pos: PosImport, url: str) -> None:
    sell(url, 1)
    store = pos.command.store
    store.mkdir()
    (store / "books.sqlite3").write_text("not a database " * 100, "utf-8")
    pos.refused()
    assert not pos.state.exists()
    (store / "books.sqlite3").unlink()
    assert pos.run()["added"] == 2


def test_everything_is_read_again_with_another_mapping_or_on_request(pos: PosImport, url: str) -> None:
    sell(url, 1, "now() - interval '1 day'")
    sell(url, 2)
    pos.run()
    assert bills_in(pos.run()) == 1
    assert bills_in(pos.run("--full")) == 2
    pos.mapping.write_text(MAPPING.replace('name = "name"\n', 'name = "name"\nproductId = "name"\n'), "utf-8")
    told = pos.run()
    assert (bills_in(told), told["changed"]) == (2, 2)


def test_a_state_that_is_later_than_the_database_is_ignored(pos: PosImport, url: str) -> None:
    sell(url, 1, "now() - interval '1 day'")
    pos.run()
    saved = pos.state.read_text("utf-8")
    year = saved.partition('"watermark":"')[2][:4]
    pos.state.write_text(saved.replace(f'"watermark":"{year}', f'"watermark":"{int(year) + 5}'), "utf-8")
    assert bills_in(pos.run()) == 1


def test_two_imports_never_run_with_the_same_state(pos: PosImport, url: str) -> None:
    held = StateFile(pos.state)
    try:
        assert "another import is running" in pos.refused()
    finally:
        held.close()
    pos.run()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("FROM bills WHERE", "FROM nowhere WHERE"),
            'a query in the mapping failed: relation "nowhere" does not exist',
        ),
        (('watermark = "updated"', 'watermark = "total"'), "the watermark total is not a time. Set database.kind"),
        (('watermark = "updated"', 'watermark = "absent"'), "has no column absent. Add the watermark column"),
        (('id = "no"', 'id = "number"'), 'has no column "number"'),
        (("[line]\nkey = ", "[line]\nname = "), "the lines query needs a key"),
    ],
)
def test_a_mistake_in_the_queries_is_named(pos: PosImport, url: str, change: tuple[str, str], message: str) -> None:
    sell(url, 1)
    text = MAPPING.replace(*change).replace('name = "bill_no"\nname = "name"', 'name = "name"')
    pos.mapping.write_text(text, "utf-8")
    assert message in pos.refused()


def test_a_database_that_cannot_be_reached_is_reported_without_its_password(pos: PosImport) -> None:
    pos.url = "postgresql://someone:hidden-word@127.0.0.1:1/pos"
    told = pos.refused()
    assert "cannot connect to the database" in told
    assert "hidden-word" not in told


def test_nothing_is_written_to_the_database(pos: PosImport, url: str) -> None:
    sell(url, 1)
    pos.mapping.write_text(
        MAPPING.replace('bills = "SELECT', 'bills = "WITH gone AS (DELETE FROM bill_lines RETURNING 1) SELECT'), "utf-8"
    )
    assert "a query in the mapping failed" in pos.refused()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM bill_lines").fetchone() == (1,)
