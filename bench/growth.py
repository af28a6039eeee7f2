"""Measure how the time per page and the memory of a worker change as the store grows.

A loaded store is multiplied inside SQLite: shops are copied with new IDs, and bills
are copied to the new shops and, for large factors, also into earlier months. Bills
are written day by day across all shops, as loaders write them, so their layout on
disk is the same as after a load. Multiplying takes minutes; loading would take hours.
"""

import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from bench import copies, machine, workloads
from bench.contestants import Running, field, running
from bench.rounds import Measured, Pair, alternate, cores
from bench.targets import Verdict, at_most
from bench.workloads import Workload
from bench.world import GROUP, World, copied, made

MONTH = timedelta(days=31)
MOST_GROUPS = 50
SHOP_SHIFT = 40
MOST_MEGABYTES = 150

_DAYS = "SELECT DISTINCT bill_day FROM bills ORDER BY bill_day"
_SHOPS = "SELECT max(number) FROM shops"
_BILLS = "SELECT count(*) FROM bills"


class Size(Struct, frozen=True):
    """The number of bills in a store, the median time per page, and the memory use of the worker."""

    bills: int
    page_us: float
    megabytes: float


def measured(
    world: World, factors: list[int], rounds: int, seconds: int, tell: Callable[[str], None]
) -> tuple[list[Size], list[Verdict]]:
    """Measure a service for each size of the store, in alternating rounds. Needs about 3 kB of disk space per bill."""
    sizes = []
    pinned = cores()
    with ExitStack() as stack:
        matches: dict[str, tuple[Running, Workload, int]] = {}
        for factor in factors:
            tell(f"preparing the store at {factor:,} times its size")
            store = grown(world, factor)
            name = f"counterfoil-x{factor}"
            contestant = msgspec.structs.replace(field()["counterfoil"], name=name)
            started = stack.enter_context(running(contestant, store, pinned.contestant))
            matches[name] = (started, workloads.drawn(store)["page"], bills_in(store))
        found = alternate([match[:2] for match in matches.values()], rounds, seconds, pinned.wrk, tell)
        for name, (started, _, bills) in matches.items():
            sizes.append(_size(bills, found[Pair(name, "page")], started))
    return sizes, _verdicts(sizes)


def _size(bills: int, found: Measured, started: Running) -> Size:
    return Size(bills, found.p50_us, machine.resident_megabytes(started.process_id)[-1])


def _verdicts(sizes: list[Size]) -> list[Verdict]:
    first, last = sizes[0], sizes[-1]
    slower = f"page time at {last.bills:,} bills over that at {first.bills:,}"
    return [
        at_most(slower, 1.25, last.page_us / first.page_us),
        at_most(f"megabytes of a worker at {last.bills:,} bills", MOST_MEGABYTES, last.megabytes),
    ]


def small_world(world: World, bills: int, tell: Callable[[str], None]) -> World:
    tell(f"generating and loading {bills:,} bills")
    small = made(world.folder / "small", bills, MONTH.days)
    copies.fill_sqlite(small)
    return small


def grown(world: World, factor: int) -> World:
    """Return a world with a store `factor` times as large. With factor 1, return the world itself."""
    if factor == 1:
        return world
    larger = World(world.folder / f"x{factor}")
    if not (larger.folder / "grown").exists():
        larger = copied(world, larger.folder.name)
        multiply(larger.books, factor)
        (larger.folder / "grown").touch()
    return larger


def multiply(books: Path, factor: int) -> None:
    groups = min(factor, MOST_GROUPS)
    months = factor // groups
    with closing(sqlite3.connect(books)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -2000000")
        connection.create_function("days_back", 2, _days_back, deterministic=True)
        (step,) = connection.execute(_SHOPS).fetchone()
        for group in range(1, groups):
            names = {"step": group * step, "tail": f"-{group}", "franchise": GROUP, "sampled": step}
            connection.execute(_more_shops(connection), names)
        days = [day for (day,) in connection.execute(_DAYS)]
        more = _more_bills(connection)
        connection.execute("CREATE TEMP TABLE sample AS SELECT * FROM bills")
        connection.execute("CREATE INDEX temp.sample_by_day ON sample (bill_day)")
        for month in range(months - 1, -1, -1):
            for day in days:
                for group in range(0 if month else 1, groups):
                    connection.execute(more, {"day": day, "step": group * step, "group": group, "month": month})
            connection.commit()
        connection.execute("UPDATE shops SET next_bill = next_bill + 1000000000")
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _more_shops(connection: sqlite3.Connection) -> str:
    changed = {"number": "number + :step", "id": "id || :tail"}
    return _copying(connection, "shops", "shops", changed, "franchise_id = :franchise AND number <= :sampled")


def _more_bills(connection: sqlite3.Connection) -> str:
    """Return a statement that copies bills. Copies get unused numbers in their shop's range."""
    changed = {
        "number": f"number + (:step << {SHOP_SHIFT}) + :month * 100000000",
        "shop": "shop + :step",
        "id": "id || '-' || :group || '-' || :month",
        "bill_day": "days_back(bill_day, :month)",
        "closed_at": f"closed_at - :month * {int(MONTH.total_seconds() * 1000)}",
        "body": "CAST(replace(CAST(body AS TEXT), '\"id\":\"' || id || '\"', "
        "'\"id\":\"' || id || '-' || :group || '-' || :month || '\"') AS BLOB)",
    }
    return _copying(connection, "sample", "bills", changed, "bill_day = :day")


def _copying(connection: sqlite3.Connection, source: str, target: str, changed: dict[str, str], chosen: str) -> str:
    """Return a statement that copies rows. Columns in `changed` get a new value; all others are copied."""
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({target})")]
    values = ", ".join(changed.get(column, column) for column in columns)
    return f"INSERT INTO {target} ({', '.join(columns)}) SELECT {values} FROM {source} WHERE {chosen}"


@cache
def _days_back(day: int, months: int) -> int:
    if not day:
        return day
    moment = datetime.strptime(str(day), "%Y%m%d").replace(tzinfo=UTC) - months * MONTH
    return int(moment.strftime("%Y%m%d"))


def bills_in(world: World) -> int:
    with closing(sqlite3.connect(f"file:{world.books}?mode=ro", uri=True)) as books:
        (found,) = books.execute(_BILLS).fetchone()
    return int(found)
