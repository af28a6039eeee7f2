"""Tests for imports from a POS database on MySQL or MariaDB."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from importing.pos_database import MAPPING, TABLES, PosImport, bills_in

mysql = pytest.importorskip("pymysql", reason="PyMySQL (extra `mysql`) is not installed, so MySQL was NOT tested")

from importing.mariadb import mariadb, needs_mariadb  # noqa: E402 - must follow the check for PyMySQL

pytestmark = [needs_mariadb]


@pytest.fixture
def connection() -> Iterator[Any]:
    with closing(mariadb().connect("mysql")) as found, found.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS pos")
        cursor.execute("CREATE DATABASE pos CHARACTER SET utf8mb4")
        cursor.execute("USE pos")
        for table in TABLES:
            cursor.execute(table.format(time="DATETIME(6)"))
        found.commit()
        yield found


@pytest.fixture
def pos(tmp_path: Path, connection: Any) -> PosImport:
    return PosImport(tmp_path, mariadb().url("pos"))


def sell(connection: Any, number: int, updated: str = "NOW(6)", state: str = "paid") -> None:
    """Write a bill with one line and one payment, or void an existing bill."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"REPLACE INTO bills VALUES ({number}, '2026-11-14 18:05:00', 240.10, '{state}', {updated})"  # noqa: S608
        )
        if state == "void":
            return
        cursor.execute("INSERT INTO bill_lines VALUES (%s, 'ข้าวซอย', 2, 240.10)", (number,))
        cursor.execute("INSERT INTO bill_payments VALUES (%s, 'Cash', 240.10)", (number,))


def test_the_first_import_reads_everything_and_the_next_only_new_or_changed_bills(
    pos: PosImport, connection: Any
) -> None:
    sell(connection, 1, "NOW(6) - INTERVAL 30 HOUR")
    sell(connection, 2, "NOW(6) - INTERVAL 20 HOUR")
    sell(connection, 9, state="100% open")
    connection.commit()
    assert pos.run()["added"] == 3
    sell(connection, 2, state="void")
    sell(connection, 3)
    connection.commit()
    told = pos.run()
    assert (told["added"], told["changed"], bills_in(told)) == (1, 1, 2)


def test_a_bill_has_its_lines_and_payments_with_exact_amounts(pos: PosImport, connection: Any, tmp_path: Path) -> None:
    sell(connection, 1)
    connection.commit()
    out = tmp_path / "records.ndjson"
    pos.command.bare("import", "--format", "database", "--url", pos.url, "--mapping", pos.mapping, "-o", out)
    text = out.read_text("utf-8")
    assert '"lines":[{"name":"ข้าวซอย","qty":"2.000","total":"240.10"}]' in text
    assert '"payments":[{"name":"Cash","amount":"240.10"}]' in text
    assert '"closedAt":"2026-11-14T18:05:00"' in text


def test_a_transaction_that_commits_after_later_ones_were_read_is_not_missed(pos: PosImport, connection: Any) -> None:
    sell(connection, 1, "NOW(6) - INTERVAL 1205 MINUTE")
    with closing(mariadb().connect("pos")) as other:
        sell(other, 2, "NOW(6) - INTERVAL 1200 MINUTE")
        other.commit()
    assert bills_in(pos.run()) == 1
    connection.commit()
    assert pos.run()["added"] == 1


def test_a_watermark_that_is_a_number_is_read_with_an_overlap(tmp_path: Path, connection: Any) -> None:
    text = MAPPING.replace("state, updated FROM", "state, no AS number FROM").replace(
        'watermark = "updated"\noverlap = "10 minutes"', 'watermark = "number"\nkind = "number"\noverlap = 2'
    )
    pos = PosImport(tmp_path, mariadb().url("pos"), text)
    for number in range(1, 11):
        sell(connection, number)
    connection.commit()
    assert bills_in(pos.run()) == 10
    assert bills_in(pos.run()) == 3
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM bills WHERE no > 5")
    connection.commit()
    # The highest number is now below the saved watermark, as after a restore. The database will reuse numbers, so
    # everything is read again.
    assert bills_in(pos.run()) == 5


def test_a_database_that_cannot_be_reached_is_reported_without_its_password(pos: PosImport) -> None:
    pos.url = "mysql://someone:hidden-word@127.0.0.1:1/pos"
    told = pos.refused()
    assert "cannot connect to the database" in told
    assert "hidden-word" not in told


def test_transaction_ids_are_refused_as_the_watermark(pos: PosImport, connection: Any) -> None:
    pos.mapping.write_text(MAPPING.replace('overlap = "10 minutes"', 'kind = "xid"'), "utf-8")
    assert "a watermark of kind xid needs PostgreSQL" in pos.refused()
