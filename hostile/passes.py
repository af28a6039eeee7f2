"""The change feed and the digests in the scope matrix: both are read page by page to their end, with every key.

The rows must be exactly those that the source records allow. If there are several
nodes, each page is requested from a different node than the page before it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from hashlib import md5
from typing import Any

from msgspec import Struct, field, json

from hostile.checker import Checker
from hostile.raw_http import Line, request
from hostile.world import Expected, KeySpec, World, bill_row, digest_row, shop_row

Json = dict[str, Any]

CHANGES, DIGESTS = "/v1/changes", "/v1/digests"
# More pages than the longest pass has, so that a pass that does not end is found.
MOST_PAGES = 1_000


class Pass(Struct, frozen=True):
    """A list to read to its end, and the rows that the records allow."""

    key: KeySpec
    target: str
    expected: Expected
    template: str


class PassResult(Struct):
    """The elements of all pages of a pass, and the faults found. `mark` is set at the end of a pass over the feed."""

    elements: list[Json] = field(default_factory=list)
    pages: int = 0
    mark: str | None = None
    faults: list[str] = field(default_factory=list)


def passes_of(world: World, spec: KeySpec, mark: str) -> Iterator[Pass]:
    """Yield the passes of a key. `mark` is a mark of this key from before the second load."""
    yield Pass(spec, "changes?limit=10", world.expected_feed(spec), CHANGES)
    yield Pass(spec, f"changes?since={mark}&limit=2", world.expected_changes(spec), CHANGES)
    yield Pass(spec, "digests?limit=5", world.expected_digests(spec), DIGESTS)
    some_days = world.expected_digests(spec, None, "2026-01-02", "2026-01-04")
    yield Pass(spec, "digests?from=20260102&to=20260104&limit=3", some_days, DIGESTS)


def read_pass(lines: Sequence[Line], key: str, target: str, template: str, checker: Checker) -> PassResult:
    """Read all pages of a pass. Reading stops at the first page with a fault."""
    done = PassResult()
    cursor, server_time = "", None
    while not done.faults:
        line = lines[done.pages % len(lines)]
        line.send(request(f"/ext/v1/{target}{cursor}", key))
        answer = line.answer()
        assert answer is not None, "the connection was closed"
        done.pages += 1
        done.faults += checker.faults(answer, template)
        body = json.decode(answer.body)
        if answer.status != 200:
            done.faults.append(f"page {done.pages}: {answer.status} {body.get('error')}")
            return done
        done.elements += body["data"]
        server_time = server_time or body["serverTime"]
        if body["serverTime"] != server_time:
            done.faults.append(f"page {done.pages} has another serverTime than the first page")
        done.mark = body.get("mark")
        if template == CHANGES and (done.mark is None) == (body["nextCursor"] is None):
            done.faults.append(f"page {done.pages}: only the last page may have a mark")
        if body["nextCursor"] is None:
            return done
        if done.pages == MOST_PAGES:
            done.faults.append("the pass does not end")
        cursor = f"{'&' if '?' in target else '?'}cursor={body['nextCursor']}"
    return done


def pass_faults(one: Pass, done: PassResult) -> list[str]:
    """Compare the elements of a pass with the expected rows, and check their order."""
    if done.faults:
        return done.faults
    rows = Counter(row_of(one.template, element) for element in done.elements)
    found = [f"{count} times: {row}" for row, count in rows.items() if count > 1]
    found += [f"not allowed: {row}" for row in sorted(set(rows) - one.expected.rows)]
    found += [f"missing: {row}" for row in sorted(one.expected.rows - set(rows))]
    shops = [element["shopId"] for element in done.elements]
    if shops != sorted(shops):
        found.append("the shops are not sorted by ID")
    return found


def row_of(template: str, element: Json) -> str:
    """Describe an element of the feed, or a digest, in the same way as `world` does."""
    shop_id = element["shopId"]
    if template == DIGESTS:
        return digest_row(shop_id, element["day"], element["bills"], element["net"])
    match element["type"]:
        case "shop":
            row = shop_row(shop_id, full=element["full"])
            return row if element["shop"]["shopName"] == f"label of {shop_id}" else f"{row}, but {element['shop']}"
        case "shopRemoved":
            return shop_row(shop_id, full=element["full"], removed=True, in_scope=element["inScope"])
        case "bill":
            return f"bill {shop_id}: {element['bill']['receiptNumber']}"
        case "billRemoved":
            return bill_row(shop_id, element["id"], removed=True)
        case unknown:
            return f"an element of the unknown type {unknown}"


def hash_faults(feed: list[Json], digests: list[Json]) -> list[str]:
    """Compare the hash of each digest with the hash of the bills that the feed returned for the same shop and day.

    The hash is computed as docs/own-client.md describes it.
    """
    hashes: dict[tuple[str, str | None], int] = {}
    for element in feed:
        if element["type"] == "bill":
            bill = element["bill"]
            day = element["shopId"], bill["billDate"]
            hashes[day] = hashes.get(day, 0) + _hash_of(bill)
    seen = {(digest["shopId"], digest["day"]): int(digest["hash"]) for digest in digests}
    days = sorted(set(hashes) | set(seen), key=str)
    return [f"the hash of {day} is not the hash of its bills" for day in days if hashes.get(day) != seen.get(day)]


def _hash_of(bill: Json) -> int:
    at = bill["updatedAt"]
    milliseconds = "" if at is None else round(datetime.fromisoformat(at).timestamp() * 1000)
    return int(md5(f"{bill['id']}|{milliseconds}".encode(), usedforsecurity=False).hexdigest()[:15], 16)
