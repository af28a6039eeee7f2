"""The questions that an assistant can ask, in the SQL of DuckDB.

Revenue is the sum of the copy's column `revenue`, which leaves out tips and void bills.
Days are `bill_date`, the calendar day in the shop's time zone, or `business_date`; all of an answer are of one kind.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Struct, structs, to_builtins
from pydantic import BeforeValidator, Field

from counterfoil.client.assistant.sources import CopyReader, Json, QueryRefused, Snapshot, json_value, within_budget

MAX_ROWS = 500
MAX_BILLS = 5

# Result columns that are periods of time. If rows are left out, they are the oldest ones.
_PERIODS = ("day", "businessDay", "month")


# --- the arguments of the tools ------------------------------------------------------


def _day(value: object) -> object:
    """Parse a day as the API does. Pydantic would read a number as a time."""
    if value is None or isinstance(value, date):
        return value
    try:
        return date.fromisoformat(str(value))
    except ValueError as error:
        raise ValueError(f"{value} is not a day of the form YYYY-MM-DD or YYYYMMDD") from error


def _listed(value: object) -> object:
    """Accept a single value where a list is meant."""
    if value == []:
        raise ValueError("The list is empty. Leave the argument out to include everything")
    return [value] if isinstance(value, str) else value


AnyList = BeforeValidator(_listed)
FirstDay = Annotated[
    date | None, BeforeValidator(_day), Field(description="First day (YYYY-MM-DD), in the shop's time zone.")
]
LastDay = Annotated[date | None, BeforeValidator(_day), Field(description="Last day (YYYY-MM-DD), inclusive.")]
DayKind = Literal["calendar", "business"]
Days = Annotated[DayKind, Field(description="Whether all days are calendar days, or business days.")]
ShopIds = Annotated[
    Annotated[Sequence[str], Field(max_length=MAX_ROWS)] | None,
    AnyList,
    Field(description="IDs of shops. If omitted: all shops."),
]
Limit = Annotated[int, Field(description="Maximum number of rows.", ge=1, le=MAX_ROWS)]
SalesGroup = Literal["day", "business_day", "month", "weekday", "hour", "shop", "channel", "service_type"]
SalesGroups = Annotated[
    Annotated[Sequence[SalesGroup], Field(max_length=4)] | None, AnyList, Field(description="If omitted: one total.")
]
ProductGroup = Literal["product", "category"]
ProductGroups = Annotated[
    Annotated[Sequence[ProductGroup], Field(min_length=1, max_length=1)], AnyList, Field(description="One of the two.")
]


class _Period(Struct, frozen=True):
    """The shops and days that a question is about. If no days are given, bills without a date are included."""

    first_day: date | None = None
    last_day: date | None = None
    shop_ids: Sequence[str] | None = None
    days: DayKind = "calendar"

    def values(self) -> list[Any]:
        """Return the values of `_BILLS_OF_PERIOD`, in its order."""
        shop_ids = list(self.shop_ids) if self.shop_ids else None
        return [self.days, shop_ids, shop_ids, self.first_day, self.first_day, self.last_day, self.last_day]


# The bills that a question is about. Their column `day` is the calendar day or the business day.
_BILLS_OF_PERIOD = """
    WITH dated AS (
        SELECT *, CASE WHEN ? = 'business' THEN business_date ELSE bill_date END AS day FROM bills
    ), asked AS (
        SELECT * FROM dated
        WHERE (CAST(? AS VARCHAR[]) IS NULL OR list_contains(CAST(? AS VARCHAR[]), shop_id))
            AND (CAST(? AS DATE) IS NULL OR day >= CAST(? AS DATE))
            AND (CAST(? AS DATE) IS NULL OR day <= CAST(? AS DATE))
    )
"""


# --- sales -----------------------------------------------------------------------------

_SALES = "asked AS b LEFT JOIN shops AS s ON s.shop_id = b.shop_id"
_SALES_FIGURES = {
    "bills": "count(*) FILTER (b.status <> 'void')",
    "voids": "count(*) FILTER (b.status = 'void')",
    "net": "coalesce(sum(b.net) FILTER (b.status <> 'void'), 0)",
    "tips": "coalesce(sum(b.tip) FILTER (b.status <> 'void'), 0)",
    "revenue": "coalesce(sum(b.revenue), 0)",
    "discounts": "coalesce(sum(b.discount_total) FILTER (b.status <> 'void'), 0)",
}


# The result columns of each way to group sales. An assistant may combine any four of them, so the statement is made of
# the columns that it names.
_COLUMNS_OF_SALES: Mapping[SalesGroup, Mapping[str, str]] = {
    "day": {"day": "b.bill_date"},
    "business_day": {"businessDay": "b.business_date"},
    "month": {"month": "strftime(b.day, '%Y-%m')"},
    "weekday": {"weekday": "dayname(b.day)"},
    "hour": {"hour": "extract(hour FROM CAST(b.local_time AS TIMESTAMP))"},
    "shop": {"shopId": "b.shop_id", "shopName": "s.shop_name"},
    "channel": {"channel": "b.channel_code", "channelName": "b.channel_name"},
    "service_type": {"serviceType": "b.service_type"},
}
# What groups are sorted by instead of by their result column.
_SORTED_BY = {"weekday": "isodow(b.day)"}


# --- products --------------------------------------------------------------------------

_LINES = "bill_items AS i JOIN asked AS b ON b.shop_id = i.shop_id AND b.id = i.bill_id"
_IS_SOLD = "b.status <> 'void' AND NOT coalesce(i.cancelled, false) AND NOT coalesce(i.is_tip, false)"


class _ProductGroup(Struct, frozen=True, kw_only=True):
    """A way to group the lines of bills. `rule` tells the assistant what a row is."""

    rule: str
    joined: str = ""
    columns: Mapping[str, str]
    keys: str
    figures: Mapping[str, str]


_BY_PRODUCT = _ProductGroup(
    rule="Every bill line counts once. Product IDs are unique only within a shop, so products are told apart by "
    "rootId, the head office's ID; without one, by shopId and productId; without any ID, by shopId and name.",
    columns={
        "rootId": "i.root_id",
        "shopId": "CASE WHEN i.root_id IS NULL THEN i.shop_id END",
        "productId": "CASE WHEN i.root_id IS NULL THEN i.product_id END",
        "name": "max(i.name)",
    },
    keys="1, 2, 3, CASE WHEN i.root_id IS NULL AND i.product_id IS NULL THEN i.name END",
    figures={
        "quantity": "coalesce(sum(i.qty), 0)",
        "total": "coalesce(sum(i.line_total), 0)",
        "bills": "count(DISTINCT (i.shop_id, i.bill_id))",
    },
)
# The categories of a line are ordered from the top level to the most specific one; each gets a row. A category is
# identified by its ID within a shop. The list of a shop could contain an ID twice.
_BY_CATEGORY = _ProductGroup(
    rule="In quantity, total and bills, every line counts once, in its most specific category. withDescendants "
    "includes the subcategories, so add only rows of one level. IDs are unique only within a shop. Null: lines without "
    "a category.",
    joined="""
        CROSS JOIN LATERAL (SELECT unnest(range(1, greatest(coalesce(len(i.category), 0), 1) + 1)) AS level) AS p
        LEFT JOIN (
            SELECT shop_id, id, max(name) AS name, max(parent_id) AS parent_id FROM categories GROUP BY shop_id, id
        ) AS c ON c.shop_id = i.shop_id AND c.id = i.category[p.level]
    """,
    columns={
        "shopId": "i.shop_id",
        "categoryId": "i.category[p.level]",
        "level": "CASE WHEN i.category[p.level] IS NOT NULL THEN p.level END",
        "name": "c.name",
        "parentId": "c.parent_id",
    },
    keys="1, 2, 3, 4, 5",
    figures={
        "quantity": "coalesce(sum(i.qty) FILTER (p.level >= coalesce(len(i.category), 0)), 0)",
        "total": "coalesce(sum(i.line_total) FILTER (p.level >= coalesce(len(i.category), 0)), 0)",
        "bills": "count(DISTINCT (i.shop_id, i.bill_id)) FILTER (p.level >= coalesce(len(i.category), 0))",
        "withDescendants": """
            {
                'quantity': coalesce(sum(i.qty), 0), 'total': coalesce(sum(i.line_total), 0),
                'bills': count(DISTINCT (i.shop_id, i.bill_id))
            }
        """,
    },
)
_PRODUCT_GROUPS: Mapping[ProductGroup, _ProductGroup] = {"product": _BY_PRODUCT, "category": _BY_CATEGORY}


class Questions:
    """The tools of an assistant. Every answer repeats what it is limited to, and says how current the data is."""

    def __init__(self, reader: CopyReader) -> None:
        self._reader = reader

    def _begin(self, **filters: Any) -> tuple[Snapshot, Json]:
        """Return the snapshot, and the beginning of the answer."""
        snapshot, note = self._reader.snapshot()
        shop_ids = filters.get("shop_ids") or ()
        known = {row[0] for row in snapshot.rows("SELECT shop_id FROM shops")}
        for shop_id in shop_ids:
            if shop_id not in known:
                raise QueryRefused(f"Shop {shop_id!r} is not in this copy. list_shops returns the IDs of all shops.")
        answer = {"filters": {name: json_value(value) or None for name, value in filters.items()}}
        return snapshot, answer | _freshness(snapshot, set(shop_ids) or known) | _selection_and_note(snapshot, note)

    def _begin_period(self, period: _Period, limit: int) -> tuple[Snapshot, Json]:
        if period.first_day and period.last_day and period.first_day > period.last_day:
            raise QueryRefused(f"first_day {period.first_day} is after last_day {period.last_day}.")
        snapshot, answer = self._begin(**structs.asdict(period), limit=limit)
        return snapshot, answer | {"days": f"{period.days} days"}

    _COLUMNS = """
        SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal
        ORDER BY table_oid, column_index
    """

    def copy_state(self) -> Json:
        """How current and complete the copy is, per shop, and the tables and columns that `query` can read."""
        snapshot, answer = self._begin()
        counts = {name: snapshot.rows(f"SELECT count(*) FROM {name}")[0][0] for name in ("shops", "bills", "members")}
        [(first, last, undated)] = snapshot.rows(
            "SELECT min(bill_date), max(bill_date), count(*) FILTER (bill_date IS NULL) FROM bills"
        )
        tables: dict[str, list[str]] = {}
        for table, column, kind in snapshot.rows(self._COLUMNS):
            tables.setdefault(table, []).append(f"{column} {kind}")
        as_of, left = snapshot.progress.feed.last_complete, _shops_that_left(snapshot)
        shop_ids = [row[0] for row in snapshot.rows("SELECT shop_id FROM shops ORDER BY shop_id LIMIT ?", [MAX_ROWS])]
        return {
            **answer,
            "rows": counts,
            "firstDay": first,
            "lastDay": last,
            "billsWithoutDate": undated,
            "shopsAsOf": {shop_id: left.get(shop_id, as_of) for shop_id in shop_ids},
            **_members_freshness(snapshot, "membersAsOf"),
            "tables": {name: ", ".join(columns) for name, columns in tables.items()},
        }

    _SHOPS = """
        SELECT s.shop_id AS "shopId", s.shop_name AS "shopName", s.franchise_id AS "franchiseId", s.timezone,
            s.in_scope AS "inScope", s.removed_at AS "removedAt", s.complete_until AS "completeUntil",
            count(b.id) AS bills, min(b.bill_date) AS "firstDay", max(b.bill_date) AS "lastDay"
        FROM shops AS s LEFT JOIN bills AS b ON b.shop_id = s.shop_id GROUP BY ALL ORDER BY s.shop_id
    """

    def list_shops(self, limit: Limit = 100) -> Json:
        """The shops, with their time zone, their number of bills, and the days of their first and last bill."""
        snapshot, answer = self._begin(limit=limit)
        return _answer(answer, "shops", snapshot.objects(self._SHOPS), limit, "the shops with the last IDs")

    def sales(
        self,
        group_by: SalesGroups = None,
        first_day: FirstDay = None,
        last_day: LastDay = None,
        shop_ids: ShopIds = None,
        days: Days = "calendar",
        limit: Limit = 100,
    ) -> Json:
        """Sales: overall totals, and totals per group for up to 4 criteria, such as day, hour, shop and channel.

        Hours are in the shop's time zone. Void bills are counted in `voids` only. The group business_day sets days to
        business.
        """
        criteria = dict.fromkeys(group_by or ())
        period = _Period(first_day, last_day, shop_ids, "business" if "business_day" in criteria else days)
        if "day" in criteria and period.days == "business":
            raise QueryRefused("Calendar days and business days cannot be mixed: group by either day or business_day.")
        snapshot, answer = self._begin_period(period, limit)
        values = period.values()
        totals = snapshot.objects(f"{_BILLS_OF_PERIOD} SELECT {_named(_SALES_FIGURES)} FROM {_SALES}", values)
        answer["totals"] = totals[0]
        groups: dict[str, str] = {}
        for criterion in criteria:
            groups |= _COLUMNS_OF_SALES[criterion]
        if not groups:
            return answer
        ordered = [_SORTED_BY.get(name, sql) for name, sql in groups.items()]
        found = snapshot.objects(
            f"{_BILLS_OF_PERIOD} SELECT {_named(groups | _SALES_FIGURES)} FROM {_SALES} "
            f"GROUP BY {', '.join([*groups.values(), *ordered])} "
            f"ORDER BY {', '.join(f'{sql} NULLS LAST' for sql in ordered)}",
            values,
        )
        for column in _PERIODS:
            if column in groups:
                return answer | _newest(found, column, limit)
        return _answer(answer, "groups", found, limit, "the last groups in this order")

    def product_mix(
        self,
        group_by: ProductGroups = ("product",),
        first_day: FirstDay = None,
        last_day: LastDay = None,
        shop_ids: ShopIds = None,
        days: Days = "calendar",
        limit: Limit = 50,
    ) -> Json:
        """Products or categories sold, the highest total first. Void bills, cancelled lines and tips are left out.

        Every line counts once. `withDescendants` of a category includes its subcategories.
        """
        period = _Period(first_day, last_day, shop_ids, days)
        snapshot, answer = self._begin_period(period, limit)
        [kind] = group_by
        group = _PRODUCT_GROUPS[kind]
        products = snapshot.objects(
            f"{_BILLS_OF_PERIOD} SELECT {_named({**group.columns, **group.figures})} FROM {_LINES} {group.joined} "
            f"WHERE {_IS_SOLD} GROUP BY {group.keys} "
            f"ORDER BY coalesce(sum(i.line_total), 0) DESC, 1 NULLS LAST, 2, 3, 4",
            period.values(),
        )
        return _answer(answer | {"rule": group.rule}, "products", products, limit, "those with the lowest totals")

    _PARTS_OF_BILL: ClassVar[Mapping[str, str]] = {
        "items": """
            SELECT line, name, qty, unit_price, line_total, category, cancelled FROM bill_items
            WHERE shop_id = ? AND bill_id = ? ORDER BY line
        """,
        "options": """
            SELECT line, choice_name, qty FROM item_options WHERE shop_id = ? AND bill_id = ? ORDER BY line, position
        """,
        "payments": "SELECT name, amount, change FROM payments WHERE shop_id = ? AND bill_id = ? ORDER BY position",
        "promotions": """
            SELECT kind, name, amount FROM promotions WHERE shop_id = ? AND bill_id = ? ORDER BY kind, position
        """,
    }

    _FOUND_BILLS = """
        SELECT * FROM bills
        WHERE (CAST(? AS VARCHAR[]) IS NULL OR list_contains(CAST(? AS VARCHAR[]), shop_id))
            AND (CAST(? AS VARCHAR) IS NULL OR id = ?) AND (CAST(? AS VARCHAR) IS NULL OR receipt_number = ?)
        ORDER BY updated_at DESC
    """

    def find_bill(
        self, bill_id: str | None = None, receipt_number: str | None = None, shop_ids: ShopIds = None
    ) -> Json:
        """Bills by ID or receipt number, with their lines, options, payments and promotions. Returns at most five."""
        if not bill_id and not receipt_number:
            raise QueryRefused("Set bill_id or receipt_number.")
        snapshot, answer = self._begin(bill_id=bill_id, receipt_number=receipt_number, shop_ids=shop_ids)
        shops, wanted, receipt = list(shop_ids) if shop_ids else None, bill_id or None, receipt_number or None
        found = snapshot.objects(self._FOUND_BILLS, [shops, shops, wanted, wanted, receipt, receipt])
        bills = found[:MAX_BILLS]
        for bill in bills:
            identity = [bill["shop_id"], bill["id"]]
            for part, statement in self._PARTS_OF_BILL.items():
                bill[part] = snapshot.objects(statement, identity)
        if bills and not shop_ids:
            answer |= _freshness(snapshot, {bill["shop_id"] for bill in bills})
        return answer | _kept("bills", within_budget(bills), len(found), "the bills that changed earliest")

    _RANKS = """
        SELECT provider_id AS "providerId", rank, max(rank_name) AS "rankName", count(*) AS members,
            coalesce(sum(points), 0) AS points, coalesce(sum(credit), 0) AS credit,
            coalesce(sum(visit_count), 0) AS visits, max(last_visit) AS "lastVisit"
        FROM members WHERE removed_at IS NULL GROUP BY provider_id, rank, rank_level
        ORDER BY provider_id, rank_level, rank
    """

    def member_summary(self, limit: Limit = 100) -> Json:
        """Number of members and their total points, credit and visits, per base and rank. No individual members."""
        snapshot, note = self._reader.snapshot()
        answer = {"filters": {"limit": limit}} | _members_freshness(snapshot, "asOf")
        answer |= _selection_and_note(snapshot, note)
        return _answer(answer, "ranks", snapshot.objects(self._RANKS), limit, "the ranks of the last bases")

    def query(self, sql: Annotated[str, Field(max_length=10_000)], limit: Limit = 100) -> Json:
        """Run one SELECT statement in DuckDB's SQL, if no other tool fits. `copy_state` lists tables and columns.

        Times that end in Z are in UTC, and local_time is on the shop's clock. Bills are identified by shop_id and id
        together. For revenue, sum `revenue`, not `net`: it leaves out tips and void bills.
        """
        snapshot, answer = self._begin(limit=limit)
        result = snapshot.query(sql, limit)
        rows = [list(row) for row in result.rows]
        kept = within_budget(rows)
        is_truncated = result.has_more or len(kept) < len(rows)
        return {
            **answer,
            # The statement may read the members, and a pull reads them less often than the bills.
            **_members_freshness(snapshot, "membersAsOf"),
            "columns": result.names,
            "rows": kept,
            "truncated": is_truncated,
            **({"leftOut": "all rows after these"} if is_truncated else {}),
        }


def _named(columns: Mapping[str, str]) -> str:
    """Return the result columns of a SELECT."""
    return ", ".join(f'{sql} AS "{name}"' for name, sql in columns.items())


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


def _freshness(snapshot: Snapshot, shop_ids: set[str]) -> Json:
    """Return the instant `asOf` up to which a result about these shops has every change, and the incomplete shops."""
    # Shops that have left the key's scope are no longer updated. `asOf` is about them only if there is no other shop.
    left = {shop_id: until for shop_id, until in _shops_that_left(snapshot).items() if shop_id in shop_ids}
    others = shop_ids - left.keys()
    marks = dict.fromkeys(others, snapshot.progress.feed.last_complete) if others else left
    answer = _earliest_and_incomplete(marks, "asOf", "incompleteShops")
    if left:
        answer["shopsThatLeft"] = dict(sorted(left.items())[:MAX_ROWS])
    return answer


def _shops_that_left(snapshot: Snapshot) -> dict[str, str | None]:
    """Return the shops that have left the key's scope, and up to when the copy has their changes, if that is known."""
    return dict(snapshot.rows("SELECT shop_id, complete_until FROM shops WHERE NOT in_scope"))


def _selection_and_note(snapshot: Snapshot, note: str | None) -> Json:
    """Return the copy's selection, if it has one, and the note. The copy contains no data outside its selection."""
    answer: Json = {}
    limits = to_builtins(snapshot.progress.selection)
    if limits:
        answer["copyContainsOnly"] = limits
    if note:
        answer["note"] = note
    return answer


# The bases that a pull reads, and the bases that it no longer reads but whose members are still in the copy.
_BASES = """
    SELECT provider_id FROM shops WHERE removed_at IS NULL AND provider_id IS NOT NULL
    UNION SELECT provider_id FROM members WHERE removed_at IS NULL AND provider_id IS NOT NULL
"""


def _members_freshness(snapshot: Snapshot, name: str) -> Json:
    """Return the start of the last complete pass over the members, the earliest one of several bases, as `name`."""
    bases = snapshot.progress.bases
    marks = {}
    for (base,) in snapshot.rows(_BASES):
        marks[base] = bases[base].passed if base in bases else None
    answer = _earliest_and_incomplete(marks, name, "incompleteBases")
    left = {base: progress.passed for base, progress in sorted(bases.items()) if base not in marks}
    if left:
        answer["basesThatLeft"] = left
    return answer


def _earliest_and_incomplete(marks: Mapping[str, str | None], earliest_name: str, incomplete_name: str) -> Json:
    """Return the earliest of the marks, and a list of the shops or bases that have no mark, if there are any."""
    known = [mark for mark in marks.values() if mark]
    answer: Json = {earliest_name: min(known, default=None)}
    incomplete = sorted(identifier for identifier, mark in marks.items() if not mark)
    if incomplete:
        answer[incomplete_name] = incomplete[:MAX_ROWS]
    return answer
