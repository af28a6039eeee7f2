"""The questions that an assistant can ask, and the queries that answer them.

Revenue is the sum of the copy's column `revenue`, which leaves out tips and void bills.
Days are `bill_date`, the calendar day in the shop's time zone. If sales are grouped by `business_day`, the first and
the last day are business days too.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from msgspec import Struct, to_builtins

from counterfoil.mcp.sources import CopyReader, Json, QueryRefused, Snapshot, json_value, objects, within_budget

MAX_ROWS = 500
MAX_BILLS = 5

_LOCAL_TIME = "b.timestamp AT TIME ZONE 'UTC' AT TIME ZONE coalesce(s.timezone, 'Asia/Bangkok')"
# The ways to group sales. Each has one or more result columns, with their names and SQL.
GROUPS: dict[str, dict[str, str]] = {
    "day": {"day": "b.bill_date"},
    "business_day": {"businessDay": "b.business_date"},
    "month": {"month": "strftime(b.bill_date, '%Y-%m')"},
    "weekday": {"weekday": "dayname(b.bill_date)"},
    "hour": {"hour": f"extract(hour FROM {_LOCAL_TIME})"},
    "shop": {"shopId": "b.shop_id", "shopName": "s.shop_name"},
    "channel": {"channel": "b.channel_code", "channelName": "b.channel_name"},
    "service_type": {"serviceType": "b.service_type"},
}
# Result columns that are not sorted by their own value.
_ORDER = {"weekday": "isodow(b.bill_date)"}
# Result columns that are periods of time. If rows are left out, they are the oldest ones.
_PERIODS = ("day", "businessDay", "month")
_BILLS = "bills AS b LEFT JOIN shops AS s ON s.shop_id = b.shop_id"
_SALES = {
    "bills": "count(*) FILTER (b.status <> 'void')",
    "voids": "count(*) FILTER (b.status = 'void')",
    "net": "coalesce(sum(b.net) FILTER (b.status <> 'void'), 0)",
    "tips": "coalesce(sum(b.tip) FILTER (b.status <> 'void'), 0)",
    "revenue": "coalesce(sum(b.revenue), 0)",
    "discounts": "coalesce(sum(b.discount_total) FILTER (b.status <> 'void'), 0)",
}
_LINES = """
    bill_items AS i JOIN bills AS b ON b.shop_id = i.shop_id AND b.id = i.bill_id
"""
_SOLD = "b.status <> 'void' AND NOT coalesce(i.cancelled, false) AND NOT coalesce(i.is_tip, false)"
_MIX = {
    "quantity": "coalesce(sum(i.qty), 0)",
    "total": "coalesce(sum(i.line_total), 0)",
    "bills": "count(DISTINCT (i.shop_id, i.bill_id))",
}


class ProductGroup(Struct, frozen=True):
    """A way to group products: the tables, the result columns, the keys, and the rule to tell the assistant."""

    source: str
    columns: dict[str, str]
    keys: str
    rule: str


def _by_product(id_name: str, column: str) -> ProductGroup:
    return ProductGroup(
        _LINES,
        {id_name: column, "name": "max(i.name)"},
        f"{column}, CASE WHEN {column} IS NULL THEN i.name END",
        f"Every bill line counts once. Products without {id_name} are told apart by their name.",
    )


PRODUCT_GROUPS = {
    "product": _by_product("productId", "i.product_id"),
    "master_product": _by_product("rootId", "i.root_id"),
    "category": ProductGroup(
        # A category is identified by its ID within a shop. The list of a shop could contain an ID twice.
        f"""{_LINES} LEFT JOIN (
            SELECT shop_id, id, max(name) AS name, max(parent_id) AS parent_id FROM categories GROUP BY shop_id, id
        ) AS c ON c.shop_id = i.shop_id AND c.id = i.category[-1]""",
        # The categories of a line are ordered from the top level to the most specific one.
        {"categoryId": "i.category[-1]", "name": "c.name", "parentId": "c.parent_id"},
        "i.category[-1], c.name, c.parent_id",
        "Every bill line counts once, in its most specific category. The figures of a parent do not include its "
        "subcategories: for the whole, add those with its ID as parentId. Null: lines without a category.",
    ),
}
_SHOPS = """
    SELECT s.shop_id, s.shop_name, s.franchise_id, s.timezone, s.removed_at, s.complete_until, count(b.id),
        min(b.bill_date), max(b.bill_date)
    FROM shops AS s LEFT JOIN bills AS b ON b.shop_id = s.shop_id GROUP BY ALL ORDER BY s.shop_id
"""
_SHOP_NAMES = (
    "shopId",
    "shopName",
    "franchiseId",
    "timezone",
    "removedAt",
    "completeUntil",
    "bills",
    "firstDay",
    "lastDay",
)
_MEMBERS = """
    SELECT provider_id, rank, max(rank_name), count(*), coalesce(sum(points), 0), coalesce(sum(credit), 0),
        coalesce(sum(visit_count), 0), max(last_visit)
    FROM members WHERE removed_at IS NULL GROUP BY provider_id, rank, rank_level ORDER BY provider_id, rank_level, rank
"""
# The bases that a pull reads, and the bases that it no longer reads but whose members are still in the copy.
_BASES = """
    SELECT provider_id FROM shops WHERE removed_at IS NULL AND provider_id IS NOT NULL
    UNION SELECT provider_id FROM members WHERE removed_at IS NULL AND provider_id IS NOT NULL
"""
_MEMBER_NAMES = ("providerId", "rank", "rankName", "members", "points", "credit", "visits", "lastVisit")
_PARTS_OF_BILL = {
    "items": ("bill_items", "line", ("line", "name", "qty", "unit_price", "line_total", "category", "cancelled")),
    "options": ("item_options", "line, position", ("line", "choice_name", "qty")),
    "payments": ("payments", "position", ("name", "amount", "change")),
    "promotions": ("promotions", "kind, position", ("kind", "name", "amount")),
}
_TABLES = """
    SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal ORDER BY table_oid, column_index
"""


class Period(Struct, frozen=True):
    """The shops and days that a question is about. If no days are given, bills without a date are included."""

    first_day: date | None = None
    last_day: date | None = None
    shop_ids: Sequence[str] = ()

    def conditions(self, day_column: str = "bill_date") -> tuple[list[str], list[Any]]:
        """Return conditions on `bills AS b`, and their values."""
        conditions: list[str] = []
        values: list[Any] = []
        for operator, day in ((">=", self.first_day), ("<=", self.last_day)):
            if day is not None:
                conditions.append(f"b.{day_column} {operator} ?")
                values.append(day)
        if self.shop_ids:
            conditions.append("list_contains(?, b.shop_id)")
            values.append(list(self.shop_ids))
        return conditions, values


class Questions:
    """Answers questions from the newest snapshot of a copy. Every result says how current the data is."""

    def __init__(self, reader: CopyReader) -> None:
        self._reader = reader

    def copy_state(self) -> Json:
        snapshot, note = self._reader.snapshot()
        counts = {name: snapshot.rows(f"SELECT count(*) FROM {name}")[0][0] for name in ("shops", "bills", "members")}
        [(first, last, undated)] = snapshot.rows(
            "SELECT min(bill_date), max(bill_date), count(*) FILTER (bill_date IS NULL) FROM bills"
        )
        tables: dict[str, list[str]] = {}
        for table, column, kind in snapshot.rows(_TABLES):
            tables.setdefault(table, []).append(f"{column} {kind}")
        as_of, left = snapshot.progress.feed.as_of, _shops_that_left(snapshot)
        shop_ids = [row[0] for row in snapshot.rows("SELECT shop_id FROM shops ORDER BY shop_id LIMIT ?", [MAX_ROWS])]
        return {
            **_freshness(snapshot, note),
            "rows": counts,
            "firstDay": json_value(first),
            "lastDay": json_value(last),
            "billsWithoutDate": undated,
            "shopsAsOf": {shop_id: left.get(shop_id, as_of) for shop_id in shop_ids},
            **_members_freshness(snapshot, "membersAsOf"),
            "tables": {name: ", ".join(columns) for name, columns in tables.items()},
        }

    def list_shops(self, limit: int) -> Json:
        snapshot, note = self._reader.snapshot()
        shops = objects(_SHOP_NAMES, snapshot.rows(_SHOPS))
        return _answer(_freshness(snapshot, note), "shops", shops, limit, "the shops with the last IDs")

    def sales(self, group_by: Sequence[str], period: Period, limit: int) -> Json:
        snapshot, note = self._reader.snapshot()
        _require_shops(snapshot, period.shop_ids)
        is_business = "business_day" in group_by
        conditions, values = period.conditions("business_date" if is_business else "bill_date")
        groups = {name: sql for group in dict.fromkeys(group_by) for name, sql in GROUPS[group].items()}
        sums = ", ".join(_SALES.values())
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        totals = snapshot.rows(f"SELECT {sums} FROM {_BILLS} {where}", values)
        answer = _freshness(snapshot, note, period.shop_ids)
        answer |= {"days": "business days" if is_business else "calendar days"}
        answer |= {"totals": objects(list(_SALES), totals)[0]}
        if not groups:
            return answer
        keys = ", ".join(groups.values())
        ordered = [_ORDER.get(name, sql) for name, sql in groups.items()]
        order = ", ".join(f"{sql} NULLS LAST" for sql in ordered)
        rows = snapshot.rows(
            f"SELECT {keys}, {sums} FROM {_BILLS} {where} GROUP BY {keys}, {', '.join(ordered)} ORDER BY {order}",
            values,
        )
        found = objects([*groups, *_SALES], rows)
        for column in _PERIODS:
            if column in groups:
                return answer | _newest(found, column, limit)
        return _answer(answer, "groups", found, limit, "the last groups in this order")

    def product_mix(self, group_by: str, period: Period, limit: int) -> Json:
        snapshot, note = self._reader.snapshot()
        _require_shops(snapshot, period.shop_ids)
        conditions, values = period.conditions()
        group = PRODUCT_GROUPS[group_by]
        rows = snapshot.rows(
            f"SELECT {', '.join([*group.columns.values(), *_MIX.values()])} FROM {group.source} "
            f"WHERE {' AND '.join([_SOLD, *conditions])} GROUP BY {group.keys} "
            f"ORDER BY {_MIX['total']} DESC, 1 NULLS LAST, 2",
            values,
        )
        answer = _freshness(snapshot, note, period.shop_ids) | {"rule": group.rule}
        products = objects([*group.columns, *_MIX], rows)
        return _answer(answer, "products", products, limit, "those with the lowest totals")

    def find_bill(self, bill_id: str | None, receipt_number: str | None, shop_ids: Sequence[str] = ()) -> Json:
        if not bill_id and not receipt_number:
            raise QueryRefused("Set bill_id or receipt_number.")
        snapshot, note = self._reader.snapshot()
        _require_shops(snapshot, shop_ids)
        conditions, values = Period(shop_ids=shop_ids).conditions()
        for name, value in {"id": bill_id, "receipt_number": receipt_number}.items():
            if value:
                conditions.append(f"b.{name} = ?")
                values.append(value)
        result = snapshot.result(
            f"SELECT * FROM bills AS b WHERE {' AND '.join(conditions)} ORDER BY updated_at DESC", values
        )
        bills = objects(result.names, result.rows[:MAX_BILLS])
        for bill in bills:
            bill |= {part: _part_of_bill(snapshot, part, bill) for part in _PARTS_OF_BILL}
        answer = _freshness(snapshot, note, shop_ids or sorted({bill["shop_id"] for bill in bills}))
        return answer | _kept("bills", within_budget(bills), len(result.rows), "the bills that changed earliest")

    def member_summary(self, limit: int) -> Json:
        snapshot, note = self._reader.snapshot()
        answer = _members_freshness(snapshot, "asOf") | _selection_and_note(snapshot, note)
        ranks = objects(_MEMBER_NAMES, snapshot.rows(_MEMBERS))
        return _answer(answer, "ranks", ranks, limit, "the ranks of the last bases")

    def query(self, sql: str, limit: int) -> Json:
        snapshot, note = self._reader.snapshot()
        result = snapshot.query(sql, limit)
        rows = [list(row) for row in result.rows]
        kept = within_budget(rows)
        is_truncated = result.has_more or len(kept) < len(rows)
        return {
            **_freshness(snapshot, note),
            # The statement may read the members, and a pull reads them less often than the bills.
            **_members_freshness(snapshot, "membersAsOf"),
            "columns": result.names,
            "rows": kept,
            "truncated": is_truncated,
            **({"leftOut": "all rows after these"} if is_truncated else {}),
        }


def _part_of_bill(snapshot: Snapshot, part: str, bill: Json) -> list[Json]:
    table, order, names = _PARTS_OF_BILL[part]
    columns = ", ".join(f'"{name}"' for name in names)
    rows = snapshot.rows(
        f"SELECT {columns} FROM {table} WHERE shop_id = ? AND bill_id = ? ORDER BY {order}",
        [bill["shop_id"], bill["id"]],
    )
    return objects(names, rows)


def _answer(answer: Json, name: str, rows: list[Json], limit: int, left_out: str) -> Json:
    """Add as many of the first rows as the limits allow. `left_out` describes the others."""
    return answer | _kept(name, within_budget(rows[:limit]), len(rows), left_out)


def _kept(name: str, kept: list[Json], total: int, left_out: str) -> Json:
    is_truncated = len(kept) < total
    return {name: kept, "total": total, "truncated": is_truncated} | ({"leftOut": left_out} if is_truncated else {})


def _newest(rows: list[Json], period: str, limit: int) -> Json:
    """Return the newest groups in their order, without a period of which only some groups fit."""

    def age(row: Json) -> str:
        return row[period] or ""  # Groups without a date count as the oldest ones.

    newest_first = sorted(rows, key=age, reverse=True)
    kept = within_budget(newest_first[:limit])
    if len(kept) == len(rows):
        return _kept("groups", rows, len(rows), "")
    oldest = age(newest_first[len(kept)])
    if complete := [row for row in rows if age(row) > oldest]:
        return _kept("groups", complete, len(rows), f"groups with {period} {oldest or 'null'} and all older ones")
    return _kept("groups", kept, len(rows), f"some groups with {period} {oldest or 'null'}, and all older ones")


def _require_shops(snapshot: Snapshot, shop_ids: Sequence[str]) -> None:
    known = {row[0] for row in snapshot.rows("SELECT shop_id FROM shops")}
    if unknown := [shop_id for shop_id in shop_ids if shop_id not in known]:
        raise QueryRefused(f"Shop {unknown[0]!r} is not in this copy. list_shops returns the IDs of all shops.")


def _freshness(snapshot: Snapshot, note: str | None, shop_ids: Sequence[str] = ()) -> Json:
    """Return how current and complete a result is.

    `asOf` is the instant up to which the result includes every change to its shops. Shops whose first pull has not
    ended have no such instant and are listed in `incompleteShops`. Shops that have left the key's scope are no longer
    updated, and are listed with an instant of their own. `asOf` is about them only if the result is about no other
    shop.
    """
    concerned = set(shop_ids) or {row[0] for row in snapshot.rows("SELECT shop_id FROM shops")}
    left = {shop_id: until for shop_id, until in _shops_that_left(snapshot).items() if shop_id in concerned}
    marks = {shop_id: snapshot.progress.feed.as_of for shop_id in concerned if shop_id not in left} or left
    answer = _earliest_and_incomplete(marks, "asOf", "incompleteShops")
    if left:
        answer["shopsThatLeft"] = dict(sorted(left.items())[:MAX_ROWS])
    return answer | _selection_and_note(snapshot, note)


def _shops_that_left(snapshot: Snapshot) -> dict[str, str | None]:
    """Return the shops that have left the key's scope, and up to when the copy has their changes, if that is known."""
    rows = snapshot.rows("SELECT shop_id, complete_until FROM shops WHERE NOT in_scope")
    return {shop_id: json_value(until) for shop_id, until in rows}


def _selection_and_note(snapshot: Snapshot, note: str | None) -> Json:
    """Return the copy's selection, if it has one, and the note. The copy contains no data outside its selection."""
    answer: Json = {}
    if limits := to_builtins(snapshot.progress.selection):
        answer["copyContainsOnly"] = limits
    if note:
        answer["note"] = note
    return answer


def _members_freshness(snapshot: Snapshot, name: str) -> Json:
    """Return how current and complete the members are.

    The field `name` is the start of the last complete pass over the members of a base, or the earliest of these
    instants if there are several bases. Bases whose first pass has not ended have no such instant and are listed in
    `incompleteBases`.
    """
    bases = snapshot.progress.bases
    marks = {row[0]: bases[row[0]].passed if row[0] in bases else None for row in snapshot.rows(_BASES)}
    return _earliest_and_incomplete(marks, name, "incompleteBases")


def _earliest_and_incomplete(marks: Mapping[str, str | None], earliest_name: str, incomplete_name: str) -> Json:
    """Return the earliest of the marks, and a list of the shops or bases that have no mark, if there are any."""
    answer: Json = {earliest_name: min(filter(None, marks.values()), default=None)}
    if incomplete := sorted(identifier for identifier, mark in marks.items() if not mark):
        answer[incomplete_name] = incomplete[:MAX_ROWS]
    return answer
