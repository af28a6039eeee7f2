"""Runs the dlt connector with a deliberate fault, to show that the shared tests detect it.

python faulty_dlt.py FAULT counterfoil_dlt.py copy.duckdb
"""

import json
import runpy
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from counterfoil.client import Client, feed_rows
from counterfoil.client.calls import MAX_FEED_LIMIT
from counterfoil.client.feed_rows import FeedRows, Row
from counterfoil.client.models import Change, Page

EARLY_STATE = Path("early-state.json")


class IgnoresRemovals(FeedRows):
    def rows(self) -> Iterator[tuple[str, Row]]:
        return ((table, row) for table, row in super().rows() if table == "shops" or not row["removed"])


class IgnoresShopsThatJoin(FeedRows):
    def rows(self) -> Iterator[tuple[str, Row]]:
        known = set(self._shops)
        return ((table, row) for table, row in super().rows() if not known or row["shop_id"] in known)


class IgnoresAPage(FeedRows):
    def __init__(self, client: Client, state: Mapping[str, Any] | None = None, limit: int = MAX_FEED_LIMIT) -> None:
        super().__init__(client, state, limit)
        pages = client.change_pages

        def without_the_second(**paging: Any) -> Iterator[Page[Change]]:
            for number, page in enumerate(pages(**paging)):
                yield structs.replace(page, data=[]) if number == 1 else page

        client.change_pages = without_the_second  # type: ignore[method-assign]


class StoresTheMarkFirst(FeedRows):
    """Stores the mark of a pass in a file before it returns the rows of that pass."""

    def __init__(self, client: Client, state: Mapping[str, Any] | None = None, limit: int = MAX_FEED_LIMIT) -> None:
        super().__init__(client, json.loads(EARLY_STATE.read_text()) if EARLY_STATE.exists() else state, limit)

    def rows(self) -> Iterator[tuple[str, Row]]:
        ahead = FeedRows(self._client, self.state)
        list(ahead.rows())
        EARLY_STATE.write_text(json.dumps(ahead.state))
        yield from super().rows()


FAULTS = {kind.__name__: kind for kind in (IgnoresRemovals, IgnoresShopsThatJoin, IgnoresAPage, StoresTheMarkFirst)}


def main() -> None:
    _, fault, program, *arguments = sys.argv
    # The connector imports the class by this name.
    feed_rows.FeedRows = FAULTS[fault]  # type: ignore[misc]
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
