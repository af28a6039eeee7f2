"""A dlt source for the Counterfoil API, and a command that keeps a copy in DuckDB.

    python counterfoil_dlt.py [--full] [--adopt] sales.duckdb

The command reads COUNTERFOIL_URL and COUNTERFOIL_KEY from the environment. With --full, it reads everything again.
With --adopt, it does so with a key that the copy was not made with.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# dlt sends usage statistics to its vendor unless this environment variable is set before dlt is imported.
os.environ.setdefault("RUNTIME__DLTHUB_TELEMETRY", "false")

import dlt
from dlt.destinations.exceptions import DatabaseUndefinedRelation
from dlt.extract import DltResource
from dlt.pipeline.exceptions import PipelineStepFailed

from counterfoil.client import Client
from counterfoil.client.errors import CopyMismatch
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
# dlt looks for missing tables and columns only if the destination has another version of the schema, or none.
FORGET_SCHEMA = "DELETE FROM {table}"
# How many rows the tables had after the last run. A table with fewer rows has lost some, and continuing from the mark
# would leave them out forever.
COUNTED = "SELECT 'bills', count(*) FROM bills UNION ALL SELECT 'shops', count(*) FROM shops"
ROW_COUNTS = (
    "CREATE TABLE IF NOT EXISTS row_counts (name varchar(100), row_count bigint)",
    "DELETE FROM row_counts",
    f"INSERT INTO row_counts {COUNTED}",
)


def _columns(table: Table, **more: dict[str, Any]) -> dict[str, dict[str, Any]]:
    own = {column.name: TYPES[column.kind] for column in table.columns if column.name not in NOT_IN_ROWS}
    # dlt modifies these dictionaries, so each column needs its own dictionary.
    return {name: {**hints} for name, hints in (own | more).items()}


@dlt.source(name="counterfoil", max_table_nesting=0)
def counterfoil(
    url: str = dlt.config.value,
    key: str = dlt.secrets.value,
    page_size: int = 1_000,
    *,
    full: bool = False,
    adopt: bool = False,
) -> tuple[DltResource, ...]:
    """Return the resources `shops`, `bills` and `members`.

    Shops and bills come from one pass through the change feed. Its mark is kept
    in the state of the resource `changes`, which dlt stores with the rows. With
    `full`, everything is read again, and with `adopt`, the key may be another one.
    """

    @dlt.resource(selected=False)
    def changes() -> Iterator[list[tuple[str, Row]]]:
        state = dlt.current.resource_state()
        with Client(url, key) as client:
            feed = FeedRows(client, (state.get("feed") or {}) | {"full": full, "adopt": adopt}, page_size)
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


def copy(
    pipeline: dlt.Pipeline, url: str, key: str, page_size: int = 1_000, *, full: bool = False, adopt: bool = False
) -> None:
    """Load everything that has changed since the last call into the pipeline's destination."""
    _remove_doubled_packages(Path(pipeline.working_dir))
    pipeline.sync_destination()
    if lost := _lost(pipeline):
        print(f"The copy has lost {lost} since its last run: it starts from the beginning.", file=sys.stderr)
    if pipeline.has_pending_data:
        # An earlier run was interrupted. Load its rows first: while rows are pending, `run` ignores its source.
        pipeline.run()
    source = counterfoil(url, key, page_size, full=full or bool(lost), adopt=adopt)
    # By default, dlt converts strings that look like times. This setting keeps them as strings.
    source.schema.remove_type_detection("iso_timestamp")
    pipeline.run(source)
    # The view needs both tables, and dlt creates a table only when it loads the table's first row.
    if _has_both_tables(pipeline):
        with pipeline.sql_client() as database:
            for statement in (CURRENT_BILLS, *ROW_COUNTS):
                database.execute_sql(statement)


def _has_both_tables(pipeline: dlt.Pipeline) -> bool:
    if not pipeline.default_schema_name:
        return False
    return {"shops", "bills"} <= set(pipeline.default_schema.data_table_names(seen_data_only=True))


def _lost(pipeline: dlt.Pipeline) -> str:
    """Say what the copy has lost since the last run: columns, or rows of a table. Let dlt create them again."""
    if not _has_both_tables(pipeline):
        return ""
    schema = pipeline.default_schema
    with pipeline.destination_client() as client, pipeline.sql_client() as database:
        for name, columns in client.get_storage_tables(["shops", "bills"]):
            if missing := set(schema.get_table_columns(name)) - set(columns):
                database.execute_sql(FORGET_SCHEMA.format(table=schema.version_table_name))
                return f"the column {min(missing)} of {name}"
        try:
            before = dict(database.execute_sql("SELECT name, row_count FROM row_counts") or ())
        except DatabaseUndefinedRelation:
            return "the counts of its rows"
        held = dict(database.execute_sql(COUNTED) or ())
    return " and ".join(sorted(f"rows of {name}" for name in held if held[name] < before.get(name, 0)))


def _remove_doubled_packages(folder: Path) -> None:
    """Delete what is left of each extracted package that dlt has normalised.

    dlt renames a package when all of it is normalised, then deletes the extracted package. If it is killed in between,
    every later run fails, because the new name is taken, or because a part of the extracted package is missing.
    """
    for normalized in (folder / "load" / "normalized").glob("*"):
        shutil.rmtree(folder / "normalize" / "extracted" / normalized.name, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Keep a copy in DuckDB.")
    parser.add_argument("target", nargs="?", default="counterfoil.duckdb")
    parser.add_argument("--full", action="store_true", help="read everything again")
    parser.add_argument("--adopt", action="store_true", help="accept a key that the copy was not made with")
    options = parser.parse_args()
    target = Path(options.target).resolve()
    # A copy may contain personal data, so only its owner can read it.
    os.umask(0o077)
    pipeline = dlt.pipeline(
        f"counterfoil_{target.stem}",
        pipelines_dir=str(target.parent / ".dlt-pipelines"),
        destination=dlt.destinations.duckdb(str(target)),
        dataset_name="counterfoil",
    )
    page_size = int(os.environ.get("COUNTERFOIL_PAGE_SIZE", "1000"))
    url, key = os.environ["COUNTERFOIL_URL"], os.environ["COUNTERFOIL_KEY"]
    try:
        copy(pipeline, url, key, page_size, full=options.full, adopt=options.adopt)
    except PipelineStepFailed as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, CopyMismatch):
            cause = cause.__cause__
        if cause is None:
            raise
        sys.exit(str(cause))


if __name__ == "__main__":
    main()
