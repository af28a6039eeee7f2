"""Compares a copy with the totals of GET /v1/digests, per shop and day, and lists the days that differ.

    python check_copy.py sales.duckdb [SCHEMA]
    python check_copy.py postgresql://user@host/database [SCHEMA]

The bills of the copy are read from the view `current_bills`. Those of shops that have
left the key's scope are not compared, because the service no longer returns them.
COUNTERFOIL_URL and COUNTERFOIL_KEY must be set in the environment. The only package
that the program needs is duckdb or psycopg.
"""

import json
import os
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
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


def rows_of(target: str, schema: str) -> list[tuple[Any, ...]]:
    if target.startswith("postgresql"):
        import psycopg

        with psycopg.connect(target) as connection:
            return connection.execute(POSTGRESQL.format(schema=schema)).fetchall()
    import duckdb

    with duckdb.connect(target, read_only=True) as database:
        found: list[tuple[Any, ...]] = database.execute(DUCKDB.format(schema=schema)).fetchall()
        return found


def digests() -> Iterator[dict[str, Any]]:
    query = {"limit": "1000"}
    while True:
        url = f"{os.environ['COUNTERFOIL_URL'].rstrip('/')}/digests?{urllib.parse.urlencode(query)}"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {os.environ['COUNTERFOIL_KEY']}"})
        with urllib.request.urlopen(request) as response:
            page = json.load(response, parse_float=Decimal)
        yield from page["data"]
        if page["nextCursor"] is None:
            return
        query["cursor"] = page["nextCursor"]


def main() -> int:
    target, schema = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "counterfoil"
    held: Totals = {
        (shop, day): (*counts, Decimal(net), Decimal(tip), text)
        for shop, day, *counts, net, tip, text in rows_of(target, schema)
    }
    served: Totals = {
        (each["shopId"], each["day"]): (
            each["bills"],
            each["voids"],
            Decimal(each["net"]),
            Decimal(each["tip"]),
            each["hash"],
        )
        for each in digests()
    }
    days = held.keys() | served.keys()
    different = sorted(
        (key for key in days if held.get(key) != served.get(key)), key=lambda key: (key[0], key[1] or "")
    )
    for shop, day in different:
        print(f"shop {shop}, {day or 'without a date'}:")
        print(f"    copy     {described(held.get((shop, day)))}")
        print(f"    service  {described(served.get((shop, day)))}")
    if different:
        print(f"The copy differs from the service in {len(different):,} of {len(days):,} daily totals.")
        return 1
    bills, shops = sum(totals[0] for totals in held.values()), len({shop for shop, _ in held})
    print(f"The copy agrees with the service: {bills:,} bills in {shops} shops, {len(held):,} daily totals compared.")
    return 0


def described(totals: DayTotals | None) -> str:
    if totals is None:
        return "no bills"
    bills, voids, net, tip, changes = totals
    return f"bills {bills:,}, voids {voids:,}, net {net:,.2f}, tips {tip:,.2f}, hash of the versions {changes}"


if __name__ == "__main__":
    sys.exit(main())
