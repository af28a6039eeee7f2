"""Compares a copy with the totals of GET /v1/digests, per shop and day, and lists the days that differ.

    python check_copy.py [--deep] sales.duckdb [SCHEMA]
    python check_copy.py [--deep] postgresql://user@host/database [SCHEMA]

With --deep, it also reads all bills of the service, and compares them with the copy field by field.
The bills of the copy are read from the view `current_bills`. Those of shops that have
left the key's scope are not compared, because the service no longer returns them.
COUNTERFOIL_URL and COUNTERFOIL_KEY must be set in the environment. The only package
that the program needs is duckdb or psycopg, and for --deep those of the connector.
"""

import argparse
import json
import os
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

DayTotals = tuple[int, int, Decimal, Decimal, str]
Totals = dict[tuple[str, str | None], DayTotals]

DUCKDB = """
SELECT shop_id, CAST(bill_date AS VARCHAR), count(*), count(*) FILTER (status = 'void'),
    coalesce(sum(net), 0), coalesce(sum(tip), 0),
    CAST(sum(CAST('0x' || substr(md5(id || '|' ||
        coalesce(CAST(epoch_ms(updated_at) AS VARCHAR), '')), 1, 15) AS HUGEINT)) AS VARCHAR)
FROM {schema}.current_bills WHERE shop_id IN (SELECT shop_id FROM {schema}.shops WHERE in_scope)
GROUP BY ALL
"""
POSTGRESQL = """
SELECT shop_id, bill_date::text, count(*), count(*) FILTER (WHERE status = 'void'),
    coalesce(sum(net), 0), coalesce(sum(tip), 0),
    sum(('x' || substr(md5(id || '|' ||
        coalesce(round(extract(epoch FROM updated_at) * 1000)::bigint::text, '')), 1, 15))::bit(60)::bigint)::text
FROM {schema}.current_bills WHERE shop_id IN (SELECT shop_id FROM {schema}.shops WHERE in_scope)
GROUP BY shop_id, bill_date
"""


WHOLE_BILLS_POSTGRESQL = "SELECT shop_id, id, to_jsonb(bills)::text FROM {schema}.current_bills AS bills"
# As text, because DuckDB's JSON would round decimals.
WHOLE_BILLS_DUCKDB = "SELECT shop_id, id, json_object({texts}) FROM {schema}.current_bills"
MOST_LISTED = 20


def query(target: str, statement: str) -> list[tuple[Any, ...]]:
    if target.startswith("postgresql"):
        import psycopg

        with psycopg.connect(target, options="-c TimeZone=UTC") as connection:
            return connection.execute(statement).fetchall()
    import duckdb

    with duckdb.connect(target, read_only=True) as database:
        database.execute("SET TimeZone = 'UTC'")
        found: list[tuple[Any, ...]] = database.execute(statement).fetchall()
        return found


def elements(path: str) -> Iterator[dict[str, Any]]:
    """Yield the elements of a list of the service."""
    parameters = {"limit": "1000"}
    while True:
        url = f"{os.environ['COUNTERFOIL_URL'].rstrip('/')}/{path}?{urllib.parse.urlencode(parameters)}"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {os.environ['COUNTERFOIL_KEY']}"})
        with urllib.request.urlopen(request) as response:
            page = json.load(response, parse_float=Decimal)
        yield from page["data"]
        if page["nextCursor"] is None:
            return
        parameters["cursor"] = page["nextCursor"]


def different_bills(target: str, schema: str) -> tuple[int, list[str]]:
    """Compare whole bills; return how many the service has, and a line for each that differs."""
    held = {(shop, bill): text for shop, bill, text in query(target, whole_bills(target, schema))}
    lines: list[str] = []
    bills = 0
    for element in elements("changes"):
        if element["type"] == "bill":
            bills += 1
            bill = element["bill"]
            text = held.get((bill["shopId"], bill["id"]))
            row = None if text is None else json.loads(text, parse_float=Decimal)
            names = ["the bill is missing"] if row is None else different_fields(bill, row)
            if names:
                lines.append(f"shop {bill['shopId']}, bill {bill['id']}: {', '.join(names)}")
    return bills, lines


def whole_bills(target: str, schema: str) -> str:
    if target.startswith("postgresql"):
        return WHOLE_BILLS_POSTGRESQL.format(schema=schema)
    names = [row[0] for row in query(target, f"DESCRIBE {schema}.current_bills")]
    texts = ", ".join(f"'{name}', CAST(\"{name}\" AS VARCHAR)" for name in names)
    return WHOLE_BILLS_DUCKDB.format(schema=schema, texts=texts)


def different_fields(bill: dict[str, Any], row: dict[str, Any]) -> list[str]:
    if "bill" in row:  # Airbyte stores the whole object.
        held = json.loads(row["bill"], parse_float=Decimal)
        return sorted(name for name in bill if held.get(name) != bill[name])
    from counterfoil.client.feed_rows import bill_row

    expected = bill_row(bill, "")
    compared = expected.keys() - {"removed", "copied_at"}
    return sorted(name for name in compared if not is_same(expected[name], row.get(name)))


def is_same(expected: Any, held: Any) -> bool:
    """Return whether a value of the copy, possibly as text, is the expected one."""
    if expected is None or held is None:
        return expected is held
    if isinstance(expected, int | Decimal):
        return Decimal(str(held)) == expected
    if expected == held:
        return True
    try:
        return moment(expected) == moment(held)
    except ValueError:
        return bool(lists(expected) == lists(held))


def moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def lists(text: str) -> Any:
    return json.loads(text, parse_float=Decimal) if text.startswith("[") else text


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare a copy with the service.")
    parser.add_argument("target", help="a DuckDB file, or postgresql://user@host/database")
    parser.add_argument("schema", nargs="?", default="counterfoil")
    parser.add_argument("--deep", action="store_true", help="compare whole bills, field by field")
    options = parser.parse_args()
    target, schema = options.target, options.schema
    totals_of_days = POSTGRESQL if target.startswith("postgresql") else DUCKDB
    held: Totals = {
        (shop, day): (*counts, Decimal(net), Decimal(tip), text)
        for shop, day, *counts, net, tip, text in query(target, totals_of_days.format(schema=schema))
    }
    served: Totals = {
        (each["shopId"], each["day"]): (
            each["bills"],
            each["voids"],
            Decimal(each["net"]),
            Decimal(each["tip"]),
            each["hash"],
        )
        for each in elements("digests")
    }
    days = held.keys() | served.keys()
    different = sorted(
        (key for key in days if held.get(key) != served.get(key)), key=lambda key: (key[0], key[1] or "")
    )
    for shop, day in different:
        print(f"shop {shop}, {day or 'without a date'}:")
        print(f"    copy     {described(held.get((shop, day)))}")
        print(f"    service  {described(served.get((shop, day)))}")
    bills, lines = different_bills(target, schema) if options.deep else (0, [])
    for line in lines[:MOST_LISTED]:
        print(line)
    if different or lines:
        print(f"The copy differs from the service in {len(different):,} of {len(days):,} daily totals", end="")
        print(f", and in {len(lines):,} of {bills:,} bills." if options.deep else ".")
        print("Run the program that made the copy again. If it still differs, run it with --full.")
        return 1
    count, shops = sum(totals[0] for totals in held.values()), len({shop for shop, _ in held})
    print(f"The totals of {len(held):,} days agree with the service: {count:,} bills in {shops} shops.")
    if options.deep:
        print(f"Every field of {bills:,} bills agrees. Not compared: shops and members.")
    else:
        print(
            "Compared, per shop and day: the number of bills and voids, net, tips, and when bills were changed. "
            "Not compared: their other fields, such as lines and payments (--deep compares them), shops and members."
        )
    return 0


def described(totals: DayTotals | None) -> str:
    if totals is None:
        return "no bills"
    bills, voids, net, tip, changes = totals
    return f"bills {bills:,}, voids {voids:,}, net {net:,.2f}, tips {tip:,.2f}, hash of the versions {changes}"


if __name__ == "__main__":
    sys.exit(main())
