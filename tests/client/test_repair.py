"""Damage to any table of a copy is found by a deep comparison, and repaired by reading everything again."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

import records as r
from client.conftest import loaded_branch, new_copy
from client.pulled_copy import PLENTY, Copy, assert_equal
from client.targets import EVERY_KIND, TARGETS, sqlite_target
from counterfoil.client import Client, QuotaSpent
from counterfoil.client.copy_views import SQLITE_VIEWS
from counterfoil.client.errors import CopyMismatch
from counterfoil.client.reconcile import Comparison, Reconciler
from counterfoil.client.row_comparison import LeftOut
from counterfoil.client.sinks import SinkError
from counterfoil.client.sinks.sql import COMPARED_TABLES, Sink
from counterfoil.client.tables import BILLS, ITEM_OPTIONS, TABLES, Kind, Table
from running_service import RunningService

# A value that no row of the copy has, for columns of each kind.
OTHER = {
    Kind.TEXT: "'other'",
    Kind.DECIMAL: "77",
    Kind.QUANTITY: "77",
    Kind.INTEGER: "77",
    Kind.DAY: "'2001-01-01'",
    Kind.INSTANT: "'2001-01-01T00:00:00.000Z'",
    Kind.LOCAL_TIME: "'2001-01-01T00:00:00.000'",
}
LISTS = {"sqlite": "'[\"other\"]'", "postgres": "ARRAY['other']"}
Everything = tuple[RunningService, r.Record]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everything]:
    """A service with rows for every table, which no test changes."""
    with closing(RunningService(tmp_path_factory.mktemp("service"))) as service:
        yield service, loaded_branch(service)


# Only SQLite belongs to `make test`. How rows are compared and repaired depends on the target, so that is tested in
# every kind.
ALL_TARGETS = pytest.mark.parametrize("kind", EVERY_KIND, indirect=True)


@pytest.fixture(params=[pytest.param(name, marks=() if name == "sqlite" else pytest.mark.long) for name in TARGETS])
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture(scope="module")
def pulled(everything: Everything, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, str]]:
    """Return the folder of a copy that is pulled once for each kind of target, and its key."""
    service, branch = everything

    @cache
    def pull(kind: str) -> tuple[Path, str]:
        folder = tmp_path_factory.mktemp(kind)
        copy = new_copy(service, branch, TARGETS[kind](folder))
        copy.pull()
        return folder, copy.key

    return pull


@pytest.fixture
def copy(kind: str, everything: Everything, pulled: Callable[[str], tuple[Path, str]], tmp_path: Path) -> Copy:
    """A complete copy in each kind of target in turn."""
    service, branch = everything
    target = TARGETS[kind](tmp_path)
    if kind == "postgres":
        copy = new_copy(service, branch, target)
        copy.pull()
        return copy
    folder, key = pulled(kind)
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return Copy(service, key, target)


def compare(copy: Copy, *, fix: bool = False) -> Comparison:
    with closing(copy.target()) as sink, Client(copy.url, copy.key) as client:
        reconciler = Reconciler(client, sink, fix=fix)
        reconciler.compare_rows()
        return reconciler.result


def differing(copy: Copy, *, fix: bool = False) -> dict[str, tuple[int, int, int]]:
    """Return how many rows of each table are missing, extra and different."""
    return {found.table: (found.missing, found.extra, found.different) for found in compare(copy, fix=fix).tables}


def first_row(table: Table) -> str:
    identity = ", ".join(table.identity)
    return f"({identity}) IN (SELECT {identity} FROM {table.name} ORDER BY {identity} LIMIT 1)"


def run(copy: Copy, *statements: str) -> None:
    with closing(copy.target()) as sink, sink.transaction():
        for statement in statements:
            sink.run(statement)


@ALL_TARGETS
def test_a_deleted_row_of_each_table_is_found_and_repaired(copy: Copy) -> None:
    run(copy, *(f"DELETE FROM {table.name} WHERE {first_row(table)}" for table in COMPARED_TABLES))
    deleted = {table.name: (1, 0, 0) for table in COMPARED_TABLES}
    assert differing(copy, fix=True) == deleted
    assert_equal(copy)


def test_emptied_tables_are_found_and_repaired(copy: Copy) -> None:
    with closing(copy.target()) as sink:
        rows = {table.name: sink.run(f"SELECT count(*) FROM {table.name}")[0][0] for table in COMPARED_TABLES}
    run(copy, *(f"DELETE FROM {table.name}" for table in COMPARED_TABLES))
    assert differing(copy, fix=True) == {table: (count, 0, 0) for table, count in rows.items()}
    assert_equal(copy)


def test_a_record_of_the_removal_of_a_bill_that_exists_is_found_and_repaired(copy: Copy) -> None:
    run(
        copy,
        "INSERT INTO removed_bills SELECT shop_id, id, business_date, bill_date, copied_at, copied_at FROM bills "
        f"WHERE {first_row(BILLS)}",
    )
    assert differing(copy, fix=True) == {"removed_bills": (0, 1, 0)}
    assert differing(copy) == {}
    assert copy.rows("SELECT count(*) FROM removed_bills") == [(0,)]


def added_row(table: Table) -> str:
    """Return an INSERT of a row that is equal to another, except for the last column of its identity."""
    names = [f'"{column.name}"' for column in table.columns]
    new = {f'"{column.name}"': OTHER[column.kind] for column in table.columns if column.name == table.identity[-1]}
    values = ", ".join(new.get(name, name) for name in names)
    return f"INSERT INTO {table.name} ({', '.join(names)}) SELECT {values} FROM {table.name} WHERE {first_row(table)}"


@ALL_TARGETS
def test_added_and_changed_rows_of_each_table_are_found_and_repaired(copy: Copy) -> None:
    changed = {
        "shops": "timezone = 'other'",
        "categories": "hidden = NULL",
        "bills": "cashier = 'other'",
        "bill_items": "line_total = 77",
        "item_options": "choice_name = 'other'",
        "payments": "name = 'other'",
        "promotions": "amount = 77",
        "members": "points = 77",
        "coupons": "status = 'other'",
    }
    run(
        copy,
        *(f"UPDATE {table.name} SET {changed[table.name]} WHERE {first_row(table)}" for table in COMPARED_TABLES),
        *map(added_row, COMPARED_TABLES),
    )
    assert differing(copy, fix=True) == {table.name: (0, 1, 1) for table in COMPARED_TABLES}
    after = compare(copy)
    assert after.tables == []
    # The service does not say that a shop never existed, so it is kept and marked.
    assert after.left_out == LeftOut(shops=1)
    assert_equal(copy)


def test_every_column_but_the_time_of_writing_is_compared(copy: Copy, kind: str) -> None:
    with closing(copy.target()) as sink:
        for table in COMPARED_TABLES:
            sink.run(f"CREATE TEMPORARY TABLE staged_{table.name} AS SELECT * FROM {table.name}")
        for table in COMPARED_TABLES:
            for column in (column for column in table.columns if column.name != "copied_at"):
                lists = LISTS.get(kind, "['other']")
                other = f"{column.name} IS NOT TRUE" if column.kind is Kind.FLAG else OTHER.get(column.kind, lists)
                sink.run("BEGIN")
                sink.run(f'UPDATE {table.name} SET "{column.name}" = {other} WHERE {first_row(table)}')
                assert has_differences(sink, table), f"{table.name}.{column.name}"
                sink.run("ROLLBACK")
            assert not has_differences(sink, table)
            sink.run(f"INSERT INTO staged_{table.name} SELECT * FROM staged_{table.name}")
            assert has_differences(sink, table), "duplicates are not found"


def has_differences(sink: Sink, table: Table) -> bool:
    sink.find_different(table)
    return bool(sink.run("SELECT 1 FROM different LIMIT 1"))


# --- what a pull repairs by itself -------------------------------------------------------


def dropped(kind: str, table: str) -> str:
    return f"DROP TABLE {table}{' CASCADE' if kind == 'postgres' else ''}"


def without_revenue(kind: str) -> list[str]:
    """Return statements that drop a column. In SQLite, a view prevents it."""
    views = [f"DROP VIEW {name}" for name in SQLITE_VIEWS] if kind == "sqlite" else []
    return [*views, f"ALTER TABLE bills DROP COLUMN revenue{' CASCADE' if kind == 'postgres' else ''}"]


LOSSES: dict[str, Callable[[str], list[str]]] = {
    "bill_items, bills, members, shops": lambda _: [
        f"DELETE FROM {name}" for name in ("shops", "bills", "members", "bill_items")
    ],
    "payments": lambda _: ["DELETE FROM payments WHERE position = 1"],
    "bill_items": lambda kind: [dropped(kind, "bill_items")],
    "bills": without_revenue,
    ", ".join(sorted(table.name for table in TABLES)): lambda kind: [
        dropped(kind, name) for name in (*(table.name for table in TABLES), "pull_seen", "pull_undelivered")
    ],
}


@pytest.mark.parametrize("lost", LOSSES)
def test_a_pull_after_a_loss_reads_everything_again(copy: Copy, kind: str, lost: str) -> None:
    run(copy, *LOSSES[lost](kind))
    assert ", ".join(copy.pull().lost_tables) == lost
    assert_equal(copy)
    assert copy.pull().lost_tables == []


def test_a_comparison_before_the_pull_does_not_hide_a_loss(copy: Copy, kind: str) -> None:
    run(copy, *without_revenue(kind), "DELETE FROM bills WHERE status = 'void'", "DELETE FROM item_options")
    for fix in (False, True):
        with closing(copy.target()) as sink, Client(copy.url, copy.key) as client:
            reconciler = Reconciler(client, sink, fix=fix)
            assert list(reconciler.run())
            assert reconciler.result.lost_tables == ["bills", "item_options"]
    assert copy.pull().lost_tables == ["bills", "item_options"]
    assert differing(copy) == {}


def test_a_copy_without_its_progress_is_refused_because_its_key_is_not_known(copy: Copy) -> None:
    run(copy, "DELETE FROM pull_state")
    with pytest.raises(SinkError, match="pull_state"):
        copy.pull()


def test_lost_records_of_removed_bills_are_noticed(pulled_copy: Copy) -> None:
    sold = r.bill(pulled_copy.branch)
    for change in (sold, r.removal(sold)):
        pulled_copy.pull_after(change)
    run(pulled_copy, "DELETE FROM removed_bills")
    assert pulled_copy.pull().lost_tables == ["removed_bills"]
    assert pulled_copy.pull().lost_tables == []


def test_a_loss_is_not_repaired_with_another_key(copy: Copy, everything: Everything) -> None:
    service, _ = everything
    other = r.branch(franchiseId="another-company")
    service.load(other)
    run(copy, "DELETE FROM payments")
    own, copy.key = copy.key, service.key(franchise="another-company", **PLENTY)
    with pytest.raises(CopyMismatch):
        copy.pull()
    copy.key = own
    assert copy.pull().lost_tables == ["payments"]


def test_an_interrupted_pull_and_removals_are_not_losses(
    service: RunningService, branch: r.Record, tmp_path: Path
) -> None:
    key = service.key(franchise=branch["franchiseId"], per_min=1000, per_day=10)
    copy = Copy(service, key, sqlite_target(tmp_path))
    sold = r.bills(branch, 10)
    service.load(*sold)
    with pytest.raises(QuotaSpent):
        copy.pull(limit=2, pages_per_batch=1)
    service.load(*map(r.removal, sold))
    for change in ([], sold[:1], [r.removal(sold[0])], []):
        service.load(*change)
        service.clock.advance(86_400)
        assert copy.pull().lost_tables == []


# --- what cannot be read again -----------------------------------------------------------


@dataclass(frozen=True)
class Departure:
    """A complete copy of a shop that has left the key's scope since, and of another that has not."""

    copy: Copy
    left: str
    shop: r.Record

    def rows_of(self, table: str) -> int:
        [(rows,)] = self.copy.rows(f"SELECT count(*) FROM {table} WHERE shop_id = '{self.left}'")
        return int(rows)

    def until(self) -> object:
        return self.copy.rows(f"SELECT complete_until FROM shops WHERE shop_id = '{self.left}'")


@pytest.fixture
def departure(kind: str, tmp_path: Path) -> Iterator[Departure]:
    with closing(RunningService(tmp_path / "service")) as service:
        staying = r.branch()
        leaving = r.branch(franchiseId=staying["franchiseId"])
        service.load(staying, leaving, *r.bills(staying, 2), *r.bills(leaving, 3))
        copy = new_copy(service, staying, TARGETS[kind](tmp_path))
        copy.pull()
        copy.pull_after(leaving | {"franchiseId": "elsewhere"})
        assert copy.pull().incomplete_shops == {}
        yield Departure(copy, leaving["id"], leaving)


def lost_shops(copy: Copy, *, deep: bool = False, fix: bool = False) -> dict[str, list[str]]:
    with closing(copy.target()) as sink, Client(copy.url, copy.key) as client:
        reconciler = Reconciler(client, sink, fix=fix)
        if deep:
            reconciler.compare_rows()
        else:
            list(reconciler.run())
        return reconciler.result.incomplete_shops


@ALL_TARGETS
def test_lines_of_a_shop_that_left_stay_if_its_bills_are_lost(departure: Departure, kind: str) -> None:
    lines = departure.rows_of("bill_items")
    run(departure.copy, "DELETE FROM bills", "DELETE FROM shops")
    tally = departure.copy.pull(full=True)
    assert tally.incomplete_shops == {departure.left: ["shops", "bills"]}
    assert (departure.rows_of("bill_items"), tally.strays_removed) == (lines, 0)
    assert departure.until() == [(None,)], "the copy claims to have everything up to a time"
    assert differing(departure.copy) == {}
    assert departure.copy.pull().incomplete_shops == {departure.left: ["shops", "bills"]}, "it is said only once"
    run(departure.copy, f"DELETE FROM payments WHERE shop_id = '{departure.left}'")
    incomplete = {departure.left: ["shops", "bills", "payments"]}
    assert lost_shops(departure.copy) == incomplete
    run(departure.copy, dropped(kind, "payments"))
    assert lost_shops(departure.copy, deep=True, fix=True) == incomplete
    assert departure.copy.pull(accept_loss=True).incomplete_shops == {}
    assert departure.copy.pull().incomplete_shops == {}
    assert lost_shops(departure.copy) == {}


@pytest.mark.parametrize("fix", [False, True])
def test_a_comparison_names_a_shop_whose_column_was_dropped(departure: Departure, kind: str, fix: bool) -> None:
    run(departure.copy, *without_revenue(kind))
    assert lost_shops(departure.copy, deep=True, fix=fix) == {departure.left: ["bills"]}
    assert departure.copy.pull().incomplete_shops == {departure.left: ["bills"]}


def change_state(copy: Copy, change: Callable[[dict[str, Any]], object]) -> None:
    with closing(copy.target()) as sink, sink.transaction():
        state = json.loads(sink.state() or b"")
        change(state)
        sink.save_state(json.dumps(state).encode())


def test_a_column_that_an_older_release_did_not_have_is_not_a_loss(departure: Departure, kind: str) -> None:
    change_state(departure.copy, lambda state: state["columns"].update(bills=len(BILLS.columns) - 1))
    run(departure.copy, *without_revenue(kind))
    tally = departure.copy.pull()
    assert (tally.lost_tables, tally.incomplete_shops) == (["bills"], {})


def test_a_shop_may_have_lost_rows_if_it_leaves_before_a_loss_is_repaired(departure: Departure) -> None:
    copy = departure.copy
    copy.pull_after(departure.shop)
    run(copy, "DELETE FROM bills")
    copy.load(departure.shop | {"franchiseId": "elsewhere"})
    assert copy.pull().incomplete_shops == {departure.left: ["bills"]}
    assert departure.rows_of("bill_items")


@pytest.mark.parametrize("accept_loss", [False, True])
def test_a_shop_that_returns_is_complete_again(departure: Departure, accept_loss: bool) -> None:
    run(departure.copy, "DELETE FROM bills")
    assert bool(departure.copy.pull(accept_loss=accept_loss).incomplete_shops) is not accept_loss
    assert departure.copy.pull_after(departure.shop).incomplete_shops == {}
    assert_equal(departure.copy)
    assert lost_shops(departure.copy, deep=True) == {}


def test_a_copy_of_an_older_release_may_have_lost_rows_of_any_shop_that_left(departure: Departure) -> None:
    change_state(departure.copy, lambda state: [state.pop(name) for name in ("left", "columns")])
    run(departure.copy, "DELETE FROM payments")
    assert departure.copy.pull().incomplete_shops == {departure.left: ["payments"]}


def test_coupons_stay_if_the_member_is_lost_and_no_longer_returned(pulled_copy: Copy) -> None:
    coupons = "SELECT count(*) FROM coupons"
    before = pulled_copy.rows(coupons)
    run(pulled_copy, "DELETE FROM members")
    pulled_copy.load(pulled_copy.branch | {"providerId": None})
    pulled_copy.pull()
    assert pulled_copy.rows(coupons) == before
    assert differing(pulled_copy) == {}


@pytest.mark.programs
@pytest.mark.parametrize("kind", ["parquet"], indirect=True)
def test_a_replaced_file_is_found_and_written_again(copy: Copy, tmp_path: Path) -> None:
    file = tmp_path / "parquet" / "payments.parquet"

    def replace(condition: str) -> None:
        with duckdb.connect() as database:
            rows = f"SELECT * REPLACE ('other' AS name) FROM read_parquet('{file}') WHERE {condition}"
            database.execute(f"CREATE TABLE rows AS {rows}")
            database.execute(f"COPY rows TO '{file}' (FORMAT parquet)")

    [(payments,)] = copy.rows("SELECT count(*) FROM payments")
    replace("position = 1")
    assert set(differing(copy)) == {"payments.parquet"}
    copy.pull()
    assert differing(copy) == {}, "a file with fewer rows is not written again"
    replace("true")
    assert differing(copy, fix=True) == {"payments.parquet": (payments, payments, 0)}
    replace("position = 1")
    with closing(copy.target()) as sink, Client(copy.url, copy.key) as client:
        reconciler = Reconciler(client, sink, fix=True)
        assert list(reconciler.run()) == []
        assert reconciler.result.repaired_files == ["payments.parquet"], "a file is written again without a word"
    replace("true")
    copy.pull(full=True)
    assert differing(copy) == {}
    file.unlink()
    assert differing(copy) == {"payments.parquet": (payments, 0, 0)}


def test_a_bill_whose_part_was_written_again_counts_as_written(copy: Copy, everything: Everything) -> None:
    service, _ = everything
    [(before,)] = copy.rows("SELECT CAST(max(copied_at) AS VARCHAR) FROM bills")
    run(copy, f"DELETE FROM item_options WHERE {first_row(ITEM_OPTIONS)}")
    service.clock.advance(60)
    service.ledger.advance_horizon()
    copy.pull()
    written = f"SELECT DISTINCT id FROM bills WHERE CAST(copied_at AS VARCHAR) > '{before}'"
    [(bill_id,)] = copy.rows(written)
    assert copy.rows(f"SELECT 1 FROM item_options WHERE bill_id = '{bill_id.replace(chr(39), chr(39) * 2)}'")


# --- what is compared, and what is not ---------------------------------------------------


def test_changes_since_the_pull_are_not_differences(pulled_copy: Copy) -> None:
    moving, removed = (r.bill(pulled_copy.branch) for _ in range(2))
    leaving = r.branch(franchiseId=pulled_copy.branch["franchiseId"])
    pulled_copy.pull_after(moving, removed, leaving, r.bill(leaving))
    pulled_copy.load(
        moving | {"closedAt": "2025-06-01T12:00:00+07:00"},
        r.removal(removed),
        r.bill(pulled_copy.branch),
        pulled_copy.branch | {"name": "another name"},
        leaving | {"franchiseId": "elsewhere"},
    )
    compared = compare(pulled_copy)
    assert compared.tables == []
    assert compared.left_out.pending >= 5
    pulled_copy.pull()
    compared = compare(pulled_copy)
    assert compared.tables == []
    assert compared.left_out == LeftOut(shops=1, bills=1), "the shop that left is not reported"


def test_bills_outside_the_selection_of_the_copy_are_differences(pulled_copy: Copy) -> None:
    pulled_copy.pull(since=date(2025, 12, 1))
    assert differing(pulled_copy) == {}
    run(pulled_copy, "UPDATE bills SET bill_date = '2025-01-01' WHERE bill_date = '2026-05-05'")
    assert differing(pulled_copy, fix=True) == {"bills": (0, 0, 1)}
    assert differing(pulled_copy) == {}


# --- pull --full -------------------------------------------------------------------------


def test_repaired_bills_count_as_changed(pulled_copy: Copy) -> None:
    [(bills,)] = pulled_copy.rows("SELECT count(DISTINCT bill_id) FROM bill_items")
    run(pulled_copy, "DELETE FROM bill_items")
    tally = pulled_copy.pull(full=True)
    assert (tally.bills_changed, tally.bills_added, tally.bills_removed) == (bills, 0, 0)
    assert pulled_copy.pull(full=True).bills_changed == 0


def test_a_full_pull_never_empties_the_copy_and_is_resumed_by_the_next_pull(
    service: RunningService, branch: r.Record, tmp_path: Path
) -> None:
    franchise = branch["franchiseId"]
    copy = Copy(service, service.key(franchise=franchise, per_min=1000, per_day=15), sqlite_target(tmp_path))
    copy.pull()
    held = copy.held()
    run(copy, "DELETE FROM payments")
    with pytest.raises(QuotaSpent):
        copy.pull(full=True, limit=1, pages_per_batch=1)
    [(bills,)] = copy.rows("SELECT count(*) FROM bills")
    assert bills == len(held["bills"])
    [(state,)] = copy.rows("SELECT state FROM pull_state")
    assert all(base["passed"] for base in json.loads(state)["bases"].values()), "its members count as incomplete"
    service.clock.advance(86_400)
    copy.pull()
    assert copy.held() == held


def test_members_are_read_again_even_if_they_are_not_due(pulled_copy: Copy) -> None:
    run(pulled_copy, "UPDATE coupons SET name = 'other'")
    pulled_copy.pull(members_every_sec=86_400)
    assert pulled_copy.rows("SELECT 1 FROM coupons WHERE name <> 'other'") == []
    pulled_copy.pull(members_every_sec=86_400, full=True)
    assert_equal(pulled_copy)
