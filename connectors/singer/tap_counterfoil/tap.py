"""The tap and its streams: bills, members and shops, in this order.

A target may store the state of a stream before it has stored the rows of the
next stream. So the mark of the change feed belongs to the stream `bills`, and
the others do not need a state, because every run writes all members and shops.
Bills come first, because their mark shows whether the copy was made with this key.
"""

import logging
import sys
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, ClassVar

from singer_sdk import Stream, Tap
from singer_sdk import typing as th

from counterfoil.client import Client
from counterfoil.client.calls import MAX_FEED_LIMIT
from counterfoil.client.errors import CopyMismatch
from counterfoil.client.feed_rows import LISTS_OF_BILL, NOT_IN_ROWS, FeedRows, Row, all_shop_rows, member_rows
from counterfoil.client.tables import BILLS, MEMBERS, SHOPS, Kind, Table

Schema = dict[str, Any]

TEXT: Schema = {"type": ["string", "null"]}
FLAG: Schema = {"type": ["boolean", "null"]}
INSTANT: Schema = {"type": ["string", "null"], "format": "date-time"}
# Many targets store JSON numbers as binary floating point. A string is exact everywhere, and targets that support the
# format `x-singer.decimal`, such as those made with the SDK, store it as a decimal.
DECIMAL: Schema = {"type": ["string", "null"], "format": "x-singer.decimal"}
TYPES: dict[Kind, Schema] = {
    Kind.TEXT: TEXT,
    Kind.TEXTS: TEXT,
    Kind.DECIMAL: DECIMAL,
    Kind.QUANTITY: DECIMAL,
    Kind.INTEGER: {"type": ["integer", "null"]},
    Kind.FLAG: FLAG,
    Kind.INSTANT: INSTANT,
    # target-postgres stores times without their zone.
    Kind.LOCAL_TIME: INSTANT,
    Kind.DAY: {"type": ["string", "null"], "format": "date"},
}


def _schema(table: Table, **more: Schema) -> Schema:
    own = {column.name: TYPES[column.kind] for column in table.columns if column.name not in NOT_IN_ROWS}
    return {"type": "object", "properties": {name: dict(kind) for name, kind in (own | more).items()}}


def _with_texts(row: Row) -> Row:
    return {name: f"{value:f}" if isinstance(value, Decimal) else value for name, value in row.items()}


class CounterfoilStream(Stream):
    """A stream that uses the API client of the tap."""

    @property
    def tap(self) -> "TapCounterfoil":
        return self._tap  # type: ignore[return-value]

    @property
    def client(self) -> Client:
        return self.tap.client


class MembersStream(CounterfoilStream):
    """All members. Removed members have an earlier `copied_at` than the `members_copied_at` of their base's shops."""

    name = "members"
    primary_keys: ClassVar[list[str]] = ["provider_id", "member_id"]
    schema: ClassVar[Schema] = _schema(MEMBERS, coupons=TEXT, copied_at=INSTANT)

    def get_records(self, context: Mapping[str, Any] | None) -> Iterable[Row]:  # noqa: ARG002 - the name is the SDK's
        shops = self.client.shop_page()
        for row in member_rows(self.client, shops):
            yield _with_texts(row)
        self.tap.members_copied_at = shops.server_time


class BillsStream(CounterfoilStream):
    """The bills that were changed or removed since the last run, from one pass through the change feed."""

    name = "bills"
    primary_keys: ClassVar[list[str]] = ["shop_id", "id"]
    replication_key = "copied_at"
    is_sorted = False
    schema: ClassVar[Schema] = _schema(
        BILLS, **dict.fromkeys(LISTS_OF_BILL, TEXT), removed=FLAG, copied_at=INSTANT, _sdc_deleted_at=INSTANT
    )

    def get_records(self, context: Mapping[str, Any] | None) -> Iterable[Row]:  # noqa: ARG002 - the name is the SDK's
        feed = FeedRows(self.client, self.stream_state.get("feed"), self.config["page_size"])
        try:
            for table, row in feed.rows():
                if table == "bills":
                    deleted_at = row["copied_at"] if row["removed"] else None
                    yield _with_texts(row) | {"_sdc_deleted_at": deleted_at}
        except CopyMismatch as error:
            sys.exit(str(error))  # The SDK would print a traceback.
        # The mark must not be stored before the pass has ended.
        self.stream_state["feed"] = feed.state


class ShopsStream(CounterfoilStream):
    """All shops that the feed has returned, with the columns that show which bills and members exist now."""

    name = "shops"
    primary_keys: ClassVar[list[str]] = ["shop_id"]
    schema: ClassVar[Schema] = _schema(
        SHOPS, categories=TEXT, removed=FLAG, complete_since=INSTANT, members_copied_at=INSTANT, copied_at=INSTANT
    )

    def get_records(self, context: Mapping[str, Any] | None) -> Iterable[Row]:  # noqa: ARG002 - the name is the SDK's
        for row in all_shop_rows(self.client, self.tap.streams["bills"].stream_state.get("feed")):
            yield row | {"members_copied_at": self.tap.members_copied_at}


class TapCounterfoil(Tap):
    name = "tap-counterfoil"
    config_jsonschema: ClassVar[Schema] = th.PropertiesList(
        th.Property("url", th.StringType, required=True, description="Base URL, up to and including /ext/v1"),
        th.Property("key", th.StringType, required=True, secret=True, description="API key"),
        th.Property("page_size", th.IntegerType, default=MAX_FEED_LIMIT, description="Elements per page of the feed"),
    ).to_dict()

    _client: Client | None = None
    # Set to the `copied_at` of the members after this run has read all of them.
    members_copied_at: str | None = None

    @property
    def client(self) -> Client:
        if self._client is None:
            # Without this, httpx would log the URL of every request.
            logging.getLogger("httpx").setLevel(logging.WARNING)
            self._client = Client(self.config["url"], self.config["key"])
        return self._client

    def discover_streams(self) -> list[Stream]:
        return [BillsStream(self), MembersStream(self), ShopsStream(self)]

    def load_streams(self) -> list[Stream]:
        """Return the streams in the required order. By default, the SDK sorts them by name."""
        return self.discover_streams()


if __name__ == "__main__":
    TapCounterfoil.cli()
