"""Revenue is computed once, in the column `revenue`, and plain SQL over amounts is right in every target."""

import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

import records as r
from client.pulled_copy import PLENTY, Copy, assert_equal
from client.targets import EVERY_KIND, TARGETS, Target, sqlite_target
from running_service import RunningService

# The amounts of each bill, whether it is void, and its revenue.
AMOUNTS = {
    "no-tip": ({"net": 996.6}, False, "996.6"),
    "tip": ({"net": 1234.56, "tip": 34.56}, False, "1200"),
    "no-net": ({"tip": 5}, False, "-5"),
    "nothing": ({}, False, "0"),
    "void": ({"net": 500, "tip": 20}, True, "0"),
    "small": ({"net": 20.1, "tip": 0}, False, "20.1"),
}


@pytest.fixture
def branch(service: RunningService) -> r.Record:
    branch = r.branch()
    service.load(
        branch, *(r.bill(branch, id=name, amounts=amounts, void=void) for name, (amounts, void, _) in AMOUNTS.items())
    )
    return branch


def pulled(service: RunningService, branch: r.Record, target: Target) -> Copy:
    copy = Copy(service, service.key(franchise=branch["franchiseId"], **PLENTY), target)
    copy.pull()
    return copy


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_bill_has_its_revenue(kind: str, service: RunningService, branch: r.Record, tmp_path: Path) -> None:
    copy = pulled(service, branch, TARGETS[kind](tmp_path))
    found = {name: Decimal(str(revenue)) for name, revenue in copy.rows("SELECT id, revenue FROM bills")}
    assert found == {name: Decimal(revenue) for name, (_, _, revenue) in AMOUNTS.items()}
    [(total,)] = copy.rows("SELECT sum(revenue) FROM bills")
    assert Decimal(str(total)) == Decimal("2211.7")
    service.load(r.bill(branch, id="no-tip", amounts={"net": 10}))
    copy.pull()
    assert [Decimal(str(row[0])) for row in copy.rows("SELECT revenue FROM bills WHERE id = 'no-tip'")] == [10]
    assert_equal(copy)


def test_amounts_in_sqlite_are_numbers_that_plain_sql_compares_and_adds_exactly(
    service: RunningService, branch: r.Record, tmp_path: Path
) -> None:
    pulled(service, branch, sqlite_target(tmp_path))
    with closing(sqlite3.connect(tmp_path / "copy.sqlite")) as reader:

        def column(statement: str) -> list[object]:
            return [row[0] for row in reader.execute(statement)]

        assert column("SELECT id FROM bills WHERE net > 1000") == ["tip"]
        assert column("SELECT max(net) FROM bills") == [1234.56]
        assert column("SELECT min(net) FROM bills") == [20.1]
        assert column("SELECT id FROM bills WHERE net IS NOT NULL ORDER BY net") == ["small", "void", "no-tip", "tip"]
        assert column("SELECT round(avg(net), 4) FROM bills") == [687.815]
        assert column("SELECT net / 8 FROM bills WHERE id = 'void'") == [62.5]
        assert column("SELECT sum(CAST(round(net * 1000000) AS INTEGER)) FROM bills") == [2_751_260_000]
        assert column("SELECT max(qty) FROM bill_items WHERE qty < 10") == [1]
