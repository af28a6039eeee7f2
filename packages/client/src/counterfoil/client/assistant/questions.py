"""The questions that an assistant can ask. `questions.toml` has the SQL that answers them.

Revenue is the sum of the copy's column `revenue`, which leaves out tips and void bills.
Days are `bill_date`, the calendar day in the shop's time zone, or `business_date`; all of an answer are of one kind.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from importlib.resources import files
from typing import Annotated, Any, Literal

from msgspec import Struct, structs, to_builtins, toml
from pydantic import BeforeValidator, Field

from counterfoil.client.assistant.sources import CopyReader, Json, QueryRefused, Snapshot, json_value, within_budget

MAX_ROWS = 500
MAX_BILLS = 5

# Result columns that are periods of time. If rows are left out, they are the oldest ones.
_PERIODS = ("day", "businessDay", "month")


class _Sales(Struct, frozen=True, forbid_unknown_fields=True):
    source: str
    figures: dict[str, str]
    groups: dict[str, dict[str, str]]
    order: dict[str, str]


class _ProductGroup(Struct, frozen=True, forbid_unknown_fields=True):
    joined: str
    columns: dict[str, str]
    keys: str
    rule: str
    figures: dict[str, str] = {}


class _Products(Struct, frozen=True, forbid_unknown_fields=True):
    lines: str
    sold: str
    figures: dict[str, str]
    groups: dict[str, _ProductGroup]


class _Wording(Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of `questions.toml`."""

    instructions: str
    shops: str
    members: str
    bases: str
    tables: str
    synonyms: dict[str, list[str]]
    sales: _Sales
    products: _Products
    parts_of_bill: dict[str, str]


TEXTS = toml.decode((files("counterfoil.client.assistant") / "questions.toml").read_bytes(), type=_Wording)


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

    @property
    def day_column(self) -> str:
        return "b.business_date" if self.days == "business" else "b.bill_date"

    def conditions(self) -> tuple[list[str], list[Any]]:
        """Return conditions on `bills AS b`, and their values."""
        conditions: list[str] = []
        values: list[Any] = []
        for operator, day in ((">=", self.first_day), ("<=", self.last_day)):
            if day is not None:
                conditions.append(f"{self.day_column} {operator} ?")
                values.append(day)
        if self.shop_ids:
            conditions.append("list_contains(?, b.shop_id)")
            values.append(list(self.shop_ids))
        return conditions, values


class Questions:
    """The tools of an assistant. Every answer repeats what it is limited to, and says how current the data is."""

    def __init__(self, reader: CopyReader) -> None:
        self._reader = reader

    def _begin(self, **filters: Any) -> tuple[Snapshot, Json]:
        """Return the snapshot, and the beginning of the answer."""
        snapshot, note = self._reader.snapshot()
        shop_ids = filters.get("shop_ids") or ()
        known = {row[0] for row in snapshot.rows("SELECT shop_id FROM shops")}
        if unknown := [shop_id for shop_id in shop_ids if shop_id not in known]:
            raise QueryRefused(f"Shop {unknown[0]!r} is not in this copy. list_shops returns the IDs of all shops.")
        answer = {"filters": {name: json_value(value) or None for name, value in filters.items()}}
        return snapshot, answer | _freshness(snapshot, set(shop_ids) or known) | _selection_and_note(snapshot, note)

    def _begin_period(self, period: _Period, limit: int) -> tuple[Snapshot, Json]:
        if period.first_day and period.last_day and period.first_day > period.last_day:
            raise QueryRefused(f"first_day {period.first_day} is after last_day {period.last_day}.")
        snapshot, answer = self._begin(**structs.asdict(period), limit=limit)
        return snapshot, answer | {"days": f"{period.days} days"}

    def copy_state(self) -> Json:
        """How current and complete the copy is, per shop, and the tables and columns that `query` can read."""
        snapshot, answer = self._begin()
        counts = {name: snapshot.rows(f"SELECT count(*) FROM {name}")[0][0] for name in ("shops", "bills", "members")}
        [(first, last, undated)] = snapshot.rows(
            "SELECT min(bill_date), max(bill_date), count(*) FILTER (bill_date IS NULL) FROM bills"
        )
        tables: dict[str, list[str]] = {}
        for table, column, kind in snapshot.rows(TEXTS.tables):
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

    def list_shops(self, limit: Limit = 100) -> Json:
        """The shops, with their time zone, their number of bills, and the days of their first and last bill."""
        snapshot, answer = self._begin(limit=limit)
        return _answer(answer, "shops", snapshot.objects(TEXTS.shops), limit, "the shops with the last IDs")

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
        conditions, values = period.conditions()
        texts = TEXTS.sales
        groups = {}
        for criterion in criteria:
            for name, sql in texts.groups[criterion].items():
                groups[name] = sql.format(day=period.day_column)
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        totals = snapshot.objects(f"SELECT {_named(texts.figures)} FROM {texts.source} {where}", values)
        answer["totals"] = totals[0]
        if not groups:
            return answer
        ordered = [texts.order.get(name, sql).format(day=period.day_column) for name, sql in groups.items()]
        found = snapshot.objects(
            f"SELECT {_named(groups | texts.figures)} FROM {texts.source} {where} "
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
        conditions, values = period.conditions()
        [kind] = group_by
        texts, group = TEXTS.products, TEXTS.products.groups[kind]
        products = snapshot.objects(
            f"SELECT {_named(group.columns | texts.figures | group.figures)} FROM {texts.lines} {group.joined} "
            f"WHERE {' AND '.join([texts.sold, *conditions])} GROUP BY {group.keys} "
            f"ORDER BY {texts.figures['total']} DESC, 1 NULLS LAST, 2, 3, 4",
            values,
        )
        return _answer(answer | {"rule": group.rule}, "products", products, limit, "those with the lowest totals")

    def find_bill(
        self, bill_id: str | None = None, receipt_number: str | None = None, shop_ids: ShopIds = None
    ) -> Json:
        """Bills by ID or receipt number, with their lines, options, payments and promotions. Returns at most five."""
        if not bill_id and not receipt_number:
            raise QueryRefused("Set bill_id or receipt_number.")
        snapshot, answer = self._begin(bill_id=bill_id, receipt_number=receipt_number, shop_ids=shop_ids)
        conditions, values = _Period(shop_ids=shop_ids).conditions()
        for name, value in {"id": bill_id, "receipt_number": receipt_number}.items():
            if value:
                conditions.append(f"b.{name} = ?")
                values.append(value)
        found = snapshot.objects(
            f"SELECT * FROM bills AS b WHERE {' AND '.join(conditions)} ORDER BY updated_at DESC", values
        )
        bills = found[:MAX_BILLS]
        for bill in bills:
            identity = [bill["shop_id"], bill["id"]]
            bill |= {part: snapshot.objects(sql, identity) for part, sql in TEXTS.parts_of_bill.items()}
        if bills and not shop_ids:
            answer |= _freshness(snapshot, {bill["shop_id"] for bill in bills})
        return answer | _kept("bills", within_budget(bills), len(found), "the bills that changed earliest")

    def member_summary(self, limit: Limit = 100) -> Json:
        """Number of members and their total points, credit and visits, per base and rank. No individual members."""
        snapshot, note = self._reader.snapshot()
        answer = {"filters": {"limit": limit}} | _members_freshness(snapshot, "asOf")
        answer |= _selection_and_note(snapshot, note)
        return _answer(answer, "ranks", snapshot.objects(TEXTS.members), limit, "the ranks of the last bases")

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
    marks = {shop_id: snapshot.progress.feed.last_complete for shop_id in shop_ids if shop_id not in left} or left
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


def _members_freshness(snapshot: Snapshot, name: str) -> Json:
    """Return the start of the last complete pass over the members, the earliest one of several bases, as `name`."""
    bases = snapshot.progress.bases
    marks = {}
    for (base,) in snapshot.rows(TEXTS.bases):
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
