"""A dlt source for the Counterfoil API, and a command that keeps a copy in DuckDB.

    python counterfoil_dlt.py sales.duckdb

The command reads COUNTERFOIL_URL and COUNTERFOIL_KEY from the environment.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# dlt sends usage statistics to its vendor unless this environment variable is set before dlt is imported.
os.environ.setdefault("RUNTIME__DLTHUB_TELEMETRY", "false")

import dlt
from dlt.extract import DltResource

from counterfoil.client import Client
from counterfoil.client.feed_rows import LISTS_OF_BILL, NOT_IN_ROWS, FeedRows, Row, member_rows
from counterfoil.client.tables import BILLS, MEMBERS, SHOPS, Kind, Table

ROWS_PER_CHUNK = 1_000
TYPES: dict[Kind, dict[str, Any]] = {
    Kind.TEXT: {"data_type": "text"},
    Kind.TEXTS: {"data_type": "text"},
    Kind.DECIMAL: {"data_type": "decimal", "precision": 38, "scale": 6},
    Kind.QUANTITY: {"data_type": "decimal", "precision": 38, "scale": 18},
    Kind.INTEGER: {"data_type": "bigint"},
    Kind.FLAG: {"data_type": "bool"},
    Kind.INSTANT: {"data_type": "timestamp"},
    Kind.LOCAL_TIME: {"data_type": "timestamp", "timezone": False},
    Kind.DAY: {"data_type": "date"},
}
TEXT, FLAG, INSTANT = TYPES[Kind.TEXT], TYPES[Kind.FLAG], TYPES[Kind.INSTANT]
# The bills that exist, also those of shops that have left the key's scope. The README explains the condition.
CURRENT_BILLS = """CREATE OR REPLACE VIEW current_bills AS
SELECT bills.* FROM bills JOIN shops USING (shop_id)
WHERE bills.copied_at >= shops.complete_since"""


def _columns(table: Table, **more: dict[str, Any]) -> dict[str, dict[str, Any]]:
    own = {column.name: TYPES[column.kind] for column in table.columns if column.name not in NOT_IN_ROWS}
    # dlt modifies these dictionaries, so each column needs its own dictionary.
    return {name: {**hints} for name, hints in (own | more).items()}


@dlt.source(name="counterfoil", max_table_nesting=0)
def counterfoil(
    url: str = dlt.config.value, key: str = dlt.secrets.value, page_size: int = 1_000
) -> tuple[DltResource, ...]:
    """Return the resources `shops`, `bills` and `members`.

    Shops and bills come from one pass through the change feed. Its mark is kept
    in the state of the resource `changes`, which dlt stores with the rows.
    """

    @dlt.resource(selected=False)
    def changes() -> Iterator[list[tuple[str, Row]]]:
        state = dlt.current.resource_state()
        with Client(url, key) as client:
            feed = FeedRows(client, state.get("feed"), page_size)
            chunk: list[tuple[str, Row]] = []
            for named_row in feed.rows():
                chunk.append(named_row)
                if len(chunk) == ROWS_PER_CHUNK:
                    yield chunk
                    chunk = []
            yield chunk
        # If anything fails before this line or while loading, dlt keeps the earlier state.
        state["feed"] = feed.state

    def rows_of(table: str, chunk: list[tuple[str, Row]]) -> list[Row]:
        return [row for name, row in chunk if name == table]

    # If a pass was restarted, a row may occur twice. With `dedup_sort`, dlt keeps the newest version.
    newest = INSTANT | {"dedup_sort": "desc"}

    @dlt.transformer(
        data_from=changes,
        write_disposition="merge",
        primary_key="shop_id",
        columns=_columns(SHOPS, categories=TEXT, removed=FLAG, complete_since=INSTANT, copied_at=newest),
    )
    def shops(chunk: list[tuple[str, Row]]) -> list[Row]:
        return rows_of("shops", chunk)

    @dlt.transformer(
        data_from=changes,
        write_disposition="merge",
        primary_key=("shop_id", "id"),
        columns=_columns(
            BILLS, **dict.fromkeys(LISTS_OF_BILL, TEXT), removed=FLAG | {"hard_delete": True}, copied_at=newest
        ),
    )
    def bills(chunk: list[tuple[str, Row]]) -> list[Row]:
        return rows_of("bills", chunk)

    @dlt.resource(write_disposition="replace", columns=_columns(MEMBERS, coupons=TEXT, copied_at=INSTANT))
    def members() -> Iterator[Row]:
        with Client(url, key) as client:
            yield from member_rows(client, client.shop_page())

    return shops, bills, members


def copy(pipeline: dlt.Pipeline, url: str, key: str, page_size: int = 1_000) -> None:
    """Load everything that has changed since the last call into the pipeline's destination."""
    _remove_doubled_packages(Path(pipeline.working_dir))
    pipeline.sync_destination()
    if pipeline.has_pending_data:
        # An earlier run was interrupted. Load its rows first: while rows are pending, `run` ignores its source.
        pipeline.run()
    source = counterfoil(url, key, page_size)
    # By default, dlt converts strings that look like times. This setting keeps them as strings.
    source.schema.remove_type_detection("iso_timestamp")
    pipeline.run(source)
    # The view needs both tables, and dlt creates a table only when it loads the table's first row.
    if {"shops", "bills"} <= set(pipeline.default_schema.data_table_names(seen_data_only=True)):
        with pipeline.sql_client() as database:
            database.execute_sql(CURRENT_BILLS)


def _remove_doubled_packages(folder: Path) -> None:
    """Delete each normalised package whose extracted package still exists, so that dlt can normalise it again.

    dlt renames a package that it has normalised, then deletes the extracted package. If it is killed in between,
    every later run fails, because the new name is taken. Such a package has not been loaded yet: dlt loads packages
    only after it has normalised all of them.
    """
    for extracted in (folder / "normalize" / "extracted").glob("*"):
        shutil.rmtree(folder / "load" / "normalized" / extracted.name, ignore_errors=True)


def main() -> None:
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "counterfoil.duckdb").resolve()
    # A copy may contain personal data, so only its owner can read it.
    os.umask(0o077)
    pipeline = dlt.pipeline(
        f"counterfoil_{target.stem}",
        pipelines_dir=str(target.parent / ".dlt-pipelines"),
        destination=dlt.destinations.duckdb(str(target)),
        dataset_name="counterfoil",
    )
    page_size = int(os.environ.get("COUNTERFOIL_PAGE_SIZE", "1000"))
    copy(pipeline, os.environ["COUNTERFOIL_URL"], os.environ["COUNTERFOIL_KEY"], page_size)


if __name__ == "__main__":
    main()
