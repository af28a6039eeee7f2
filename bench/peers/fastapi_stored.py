"""The API on FastAPI that joins the JSON which our store keeps finished: the fair peer, without models and schemas.

    BOOKS=books.sqlite3 uvicorn fastapi_stored:app

It reads our own file with `sqlite3`, as sparingly as a team without an ORM would. With DUTIES=duties.sqlite3, every
request needs a key, is counted and is recorded. Without it there are no keys, limits or request records, and
`franchiseId` replaces the scope of a key. Members are left out: our store keeps templates of them, not finished JSON.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Annotated, Any

from duties import Duties
from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

books = sqlite3.connect(f"file:{os.environ['BOOKS']}?mode=ro", uri=True, check_same_thread=False)
duties = Duties(os.environ["DUTIES"]) if os.environ.get("DUTIES") else None
Handler = Callable[[Request], Coroutine[Any, Any, Response]]

PLACE_OF_BILL = """
    SELECT bill_day, closed_at, updated_at FROM bills WHERE shop = (SELECT number FROM shops WHERE id = ?) AND id = ?
"""
# SQLite joins the page: 200 rows that are fetched one by one take half as long again.
BY_DAY = """
    SELECT count(*), CAST(group_concat(body, ',') AS BLOB), (
        SELECT id FROM bills
        WHERE shop = (SELECT number FROM shops WHERE id = ?1) AND (bill_day, closed_at, id) > (?2, ?3, ?4)
            AND bill_day <= ?5
        ORDER BY bill_day, closed_at, id LIMIT 1 OFFSET ?6 - 1
    )
    FROM (
        SELECT body FROM bills
        WHERE shop = (SELECT number FROM shops WHERE id = ?1) AND (bill_day, closed_at, id) > (?2, ?3, ?4)
            AND bill_day <= ?5
        ORDER BY bill_day, closed_at, id LIMIT ?6
    )
"""
BY_CHANGE = """
    SELECT count(*), CAST(group_concat(body, ',') AS BLOB), (
        SELECT id FROM bills
        WHERE shop = (SELECT number FROM shops WHERE id = ?1) AND updated_at IS NOT NULL AND (updated_at, id) > (?2, ?3)
        ORDER BY updated_at, id LIMIT 1 OFFSET ?4 - 1
    )
    FROM (
        SELECT body FROM bills
        WHERE shop = (SELECT number FROM shops WHERE id = ?1) AND updated_at IS NOT NULL AND (updated_at, id) > (?2, ?3)
        ORDER BY updated_at, id LIMIT ?4
    )
"""
# The index of bills begins with their shop, so this asks it once for each shop.
ONE_BILL = """
    SELECT bills.body FROM shops CROSS JOIN bills ON bills.shop = shops.number AND bills.id = ? LIMIT 1
"""
SHOPS = "SELECT body FROM shops WHERE franchise_id = ? AND NOT removed ORDER BY number"


class RouteWithDuties(APIRoute):
    """A route that admits a request before its handler runs. It costs less than a middleware."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        if duties is None:
            return handle

        async def admit_and_handle(request: Request) -> Response:
            began = time.perf_counter_ns()
            key = duties.key_of(request.headers.get("authorization", ""))
            if key is None:
                return refusal(401, "invalid_key")
            admission = await duties.admit(key)
            if admission.retry_after_sec:
                return refusal(429, "rate_limited", {"Retry-After": str(admission.retry_after_sec)})
            response = refusal(429, "quota_exceeded") if admission.count > key.per_day else await handle(request)
            took_us = (time.perf_counter_ns() - began) // 1000
            duties.note(key.key_id, request.url.path, response.status_code, took_us)
            return response

        return admit_and_handle


app = FastAPI()
app.router.route_class = RouteWithDuties


@app.get("/ext/v1/transactions")
async def transactions(
    shop_id: Annotated[str, Query(alias="shopId")],
    first: Annotated[int | None, Query(alias="from")] = None,
    last: Annotated[int | None, Query(alias="to")] = None,
    updated_since: Annotated[datetime | None, Query(alias="updatedSince")] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 100,
    cursor: str | None = None,
) -> Response:
    after = books.execute(PLACE_OF_BILL, (shop_id, cursor)).fetchone() if cursor else None
    if cursor and after is None:
        raise HTTPException(400, "bad_cursor")
    if updated_since:
        place = (after[2], cursor) if after else (int(updated_since.timestamp() * 1000), "")
        count, bodies, last_id = books.execute(BY_CHANGE, (shop_id, *place, limit)).fetchone()
    else:
        place = (after[0], after[1], cursor) if after else (first, -1, "")
        count, bodies, last_id = books.execute(BY_DAY, (shop_id, *place, last, limit)).fetchone()
    next_cursor = f'"{last_id}"' if count == limit else "null"
    return answer(b"[%b]" % (bodies or b""), f',"nextCursor":{next_cursor}')


@app.get("/ext/v1/transactions/{bill_id}")
async def transaction(bill_id: str) -> Response:
    found = books.execute(ONE_BILL, (bill_id,)).fetchone()
    if found is None:
        raise HTTPException(404, "not_found")
    return answer(found[0])


@app.get("/ext/v1/shops")
async def shops(franchise_id: Annotated[str, Query(alias="franchiseId")]) -> Response:
    bodies = [body for (body,) in books.execute(SHOPS, (franchise_id,))]
    return answer(b"[%b]" % b",".join(bodies))


def answer(data: bytes, more: str = "") -> Response:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    end = f'{more},"serverTime":"{now}"}}'
    return Response(b'{"ok":true,"data":%b%b' % (data, end.encode()), media_type="application/json")


def refusal(status: int, error: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"ok": False, "error": error}, status, headers)
