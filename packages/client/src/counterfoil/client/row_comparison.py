"""Compares every row of a copy with the service, by reading everything again. The copy is not changed.

Two temporary tables collect the result. `compared` lists the shops, bills and members that the service returned, and
`differences` has an entry for each row that only one side has, or that has other values.
"""

from collections.abc import Collection, Sequence
from functools import partial

from msgspec import Struct

from counterfoil.client.api import Client
from counterfoil.client.calls import MAX_FEED_LIMIT, decode_row
from counterfoil.client.feed import BatchReader, FeedBatch, FeedGroup, change_pages
from counterfoil.client.pull import MemberPass
from counterfoil.client.pull_state import BaseState, CopySelection, Tally
from counterfoil.client.sinks.sql import (
    COMPARED_TABLES,
    IN_SCOPE,
    WHOLE_OF,
    WHOLES,
    BillKey,
    Sink,
    decode_shop_head,
    key_of,
)
from counterfoil.client.tables import BILLS, MEMBERS, SHOPS, Kind, Table

# Conditions for the rows that the service must return. It no longer returns the bills of shops that have left the key's
# scope, nor closed shops and removed members. For categories, it selects those that belong to no shop. A coupon without
# a member may be that of a removed one.
_EXPECTED = {
    **{table.name: IN_SCOPE for table in COMPARED_TABLES},
    "shops": "removed_at IS NULL",
    "categories": "shop_id NOT IN (SELECT shop_id FROM shops)",
    "members": "removed_at IS NULL AND provider_id IN (SELECT owner FROM compared WHERE name = 'bases')",
    "coupons": "FALSE",
}


class RowDifferences(Struct, frozen=True, kw_only=True):
    """How many rows of a table only the service has, only the copy has, and both have with different values."""

    table: str
    missing: int
    extra: int
    different: int
    is_fixed: bool = False


class LeftOut(Struct, frozen=True):
    """Counts of what was not compared: no longer returned or, if `pending`, changed since the last pull."""

    shops: int = 0
    bills: int = 0
    members: int = 0
    pending: int = 0


class RowComparison:
    """Reads all shops, bills and members of the service, and compares each batch with the copy."""

    def __init__(self, client: Client, sink: Sink, tally: Tally) -> None:
        self._client = client
        self._sink = sink
        self._tally = tally
        self._bases: set[str] = set()

    def read(self, selection: CopySelection) -> None:
        """Read and compare everything that the copy should contain."""
        text = self._sink.DIALECT.types[Kind.TEXT]
        for name, sides in (("compared", ""), ("differences", ", served INTEGER, held INTEGER")):
            self._sink.run(f"DROP TABLE IF EXISTS {name}")
            self._sink.run(f"CREATE TEMPORARY TABLE {name} (name {text}, owner {text}, bill_id {text}{sides})")
        self._read_feed(selection)
        self._read_members()
        for table in COMPARED_TABLES:
            # The copy's rows of shops, bills and members that the service did not return, but should if they exist.
            self._sink.run(
                f"INSERT INTO differences SELECT '{table.name}', {_owner(table)}, 0, 1 FROM {table.name} "
                f"WHERE {_EXPECTED[table.name]} AND {_not_returned(table)}"
            )
        self._sink.run(
            "INSERT INTO differences SELECT 'removed_bills', shop_id, id, 0, 1 FROM removed_bills "
            "WHERE (shop_id, id) IN (SELECT shop_id, id FROM bills)"
        )

    def forget_pending(self, shops: Collection[str], listed: Collection[str], bills: Collection[BillKey]) -> None:
        """Drop what the next pull reads: all rows of these `shops`, the rows of `listed` shops, and these bills."""
        pending = self._sink.listed_keys([*bills, *((shop_id, "") for shop_id in listed)])
        of_shops = "name NOT IN ('members', 'coupons')"
        self._sink.run(f"DELETE FROM differences WHERE {of_shops} AND (owner, bill_id) IN ({pending})")
        for shop_id in shops:
            self._sink.run(f"DELETE FROM differences WHERE {of_shops} AND owner = ?", [shop_id])

    def differences(self) -> list[RowDifferences]:
        """Return the tables that differ."""
        counts = ("sum(served * (1 - held))", "sum(held * (1 - served))", "sum(served * held)")
        rows = self._sink.run(f"SELECT name, {', '.join(counts)} FROM differences GROUP BY name ORDER BY name")
        return [
            RowDifferences(table=name, missing=int(missing), extra=int(extra), different=int(different))
            for name, missing, extra, different in rows
        ]

    def left_out(self, pending: int) -> LeftOut:
        """Return how many rows of the copy were not compared. `pending` are those that the next pull reads."""
        return LeftOut(
            shops=self._count_unexpected(SHOPS),
            bills=self._count_unexpected(BILLS),
            members=self._count_unexpected(MEMBERS),
            pending=pending,
        )

    def _count_unexpected(self, whole: Table) -> int:
        """Count the rows that the service did not return, and need not return."""
        [[count]] = self._sink.run(
            f"SELECT count(*) FROM {whole.name} WHERE NOT ({_EXPECTED[whole.name]}) AND {_not_returned(whole)}"
        )
        return int(count)

    # --- reading -------------------------------------------------------------------

    def _read_feed(self, selection: CopySelection) -> None:
        self._tally.reading = "all bills"
        reader = BatchReader(
            change_pages(self._client, None, None, MAX_FEED_LIMIT),
            self._sink,
            new_batch=partial(FeedBatch, selection, is_full_pass=True),
            on_page=lambda page: self._tally.count_response(page.remaining),
        )
        try:
            while batch := reader.next_batch(None):
                for group in batch.groups:
                    self._compare_group(group)
                if batch.error is not None:
                    raise batch.error
                if batch.mark is not None:
                    return
        finally:
            reader.close()

    def _compare_group(self, group: FeedGroup) -> None:
        if group.shops:
            for row in group.shops.values():
                base = decode_row(row, decode_shop_head).provider_id
                if base:
                    self._bases.add(base)
            self._sink.stage_shops(list(group.shops.values()))
            self._compare_staged(SHOPS)
        if group.bills:
            self._sink.stage_bills(group.bills, group.parsed, group.shops_with_bills)
            self._compare_staged(BILLS)
        self._tally.bills_read += len(group.bills) + group.left_out

    def _read_members(self) -> None:
        member_pass = MemberPass(self._client, self._sink, self._tally)
        for provider_id in sorted(self._bases):
            self._tally.reading = f"members of {provider_id}"
            self._sink.run("INSERT INTO compared (name, owner) VALUES ('bases', ?)", [provider_id])
            position, is_last = BaseState(), False
            while not is_last:
                batch = member_pass.read_batch(position, provider_id, "")
                if batch.error is not None:
                    raise batch.error
                if batch.latest:
                    self._sink.stage_members(provider_id, [bytes(row) for row in batch.latest.values()])
                    self._compare_staged(MEMBERS)
                is_last = batch.is_last

    # --- comparing -----------------------------------------------------------------

    def _compare_staged(self, whole: Table) -> None:
        staged = f"SELECT {_owner(whole)} FROM staged_{whole.name}"
        for table in next(tables for tables in WHOLES if tables[0] is whole):
            self._sink.find_different(table)
            # If the service returns a bill twice, the later version counts.
            self._sink.run(f"DELETE FROM differences WHERE name = '{table.name}' AND (owner, bill_id) IN ({staged})")
            self._sink.run(
                f"INSERT INTO differences SELECT '{table.name}', {_owner(table)}, served, held FROM different"
            )
        self._sink.run(f"INSERT INTO compared SELECT '{whole.name}', {_owner(whole)} FROM staged_{whole.name}")


def _not_returned(table: Table) -> str:
    """Return an SQL condition for the rows of shops, bills or members that the service did not return."""
    key = ", ".join(key_of(table))
    returned = "owner, bill_id" if len(key_of(table)) > 1 else "owner"
    compared = f"SELECT {returned} FROM compared WHERE name = '{WHOLE_OF[table.name].name}'"
    return f"({key}) IN (SELECT {key} FROM {table.name} EXCEPT {compared})"


def _owner(table: Table) -> str:
    """Return the columns `owner` and `bill_id` of the temporary tables. Only bills and their parts have the second."""
    names: Sequence[str] = key_of(table)
    return ", ".join(names) if len(names) > 1 else f"{names[0]}, ''"
