"""The interface of the parsers that convert the objects of a response to rows for an SQL sink, and what they need."""

from collections.abc import Sequence
from typing import Protocol

import msgspec
from msgspec import Struct

from counterfoil.client.sinks import BillKey, ParsedRows
from counterfoil.client.tables import Table


class RowParser(Protocol):
    """Parses the objects of a response. `SqlSink.fill` inserts the resulting rows."""

    def read(self, rows: Sequence[bytes], tables: Sequence[Table]) -> None:
        """Parse the objects of a response. Fields that these tables do not use may be skipped."""

    def read_ahead(self, rows: Sequence[bytes], tables: Sequence[Table]) -> ParsedRows:
        """Parse the objects of a response for a later call of `use`. Another thread may call this."""

    def use(self, parsed: ParsedRows) -> None:
        """Let `fill` insert these rows instead of those that `read` parsed last."""

    def release(self) -> None:
        """Free the memory of parsed rows that were used. This must not be called inside a transaction."""


class _BillIdentity(Struct):
    id: str
    shop_id: str = msgspec.field(name="shopId")


_decode_identity = msgspec.json.Decoder(_BillIdentity).decode


def latest_versions(rows: Sequence[bytes]) -> list[bytes]:
    """Return the last version of each bill."""
    latest: dict[BillKey, bytes] = {}
    for row in rows:
        identity = _decode_identity(row)
        latest[identity.shop_id, identity.id] = row
    return list(latest.values())
