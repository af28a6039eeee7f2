"""The views of a copy, with the descriptions of their columns. docs/keep-a-copy.md describes them.

Sums are rounded, money to four places and quantities to six, so that they are the same in every engine. The bills of
shops that have left the key's scope count.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from counterfoil.client.tables import BILL_ITEMS, BILLS, SHOPS, Table, View


class Elements(Struct, frozen=True):
    """The elements of a line's list of categories, which begins with the top level, in the SQL of an engine."""

    first: str
    second: str
    third: str
    last: str


_DUCKDB = Elements(
    first="bill_items.category[1]",
    second="bill_items.category[2]",
    third="bill_items.category[3]",
    last="bill_items.category[-1]",
)
_POSTGRES = Elements(
    first="bill_items.category[1]",
    second="bill_items.category[2]",
    third="bill_items.category[3]",
    last="bill_items.category[cardinality(bill_items.category)]",
)
_SQLITE = Elements(
    first="json_extract(bill_items.category, '$[0]')",
    second="json_extract(bill_items.category, '$[1]')",
    third="json_extract(bill_items.category, '$[2]')",
    last="json_extract(bill_items.category, '$[#-1]')",
)


def _view(
    description: str,
    sql: str,
    like_tables: Sequence[Table],
    like_columns: Sequence[str],
    own_columns: Mapping[str, str],
) -> View:
    """Return a view. Its `like_columns` are described as that of the last of these tables that has one of this name."""
    described: dict[str, str] = {}
    for table in like_tables:
        described |= {column.name: column.description for column in table.columns}
    columns = {name: described[name] for name in like_columns}
    return View(description, sql.strip(), {**columns, **own_columns})


BILL_LINES_SQL = """
WITH names AS (SELECT shop_id, id, max(name) AS name FROM categories GROUP BY shop_id, id)
SELECT bills.shop_id, shops.shop_name, bills.id AS bill_id, bill_items.line, bills.timestamp, bills.local_time,
    bills.business_date, bills.bill_date, bills.status, bills.channel_code, bills.channel_name, bills.service_type,
    bill_items.product_id, bill_items.root_id, bill_items.name AS product_name, bill_items.qty, bill_items.unit_price,
    bill_items.line_total, {last} AS category_id, coalesce(specific.name, {last}) AS category_name,
    coalesce(level_1.name, {first}) AS category_level_1, coalesce(level_2.name, {second}) AS category_level_2,
    coalesce(level_3.name, {third}) AS category_level_3, bill_items.cancelled, bill_items.is_tip,
    bills.status <> 'void' AND NOT bill_items.cancelled AND NOT bill_items.is_tip AS is_sold
FROM bill_items JOIN bills ON bills.shop_id = bill_items.shop_id AND bills.id = bill_items.bill_id
LEFT JOIN shops ON shops.shop_id = bill_items.shop_id
LEFT JOIN names AS specific ON specific.shop_id = bill_items.shop_id AND specific.id = {last}
LEFT JOIN names AS level_1 ON level_1.shop_id = bill_items.shop_id AND level_1.id = {first}
LEFT JOIN names AS level_2 ON level_2.shop_id = bill_items.shop_id AND level_2.id = {second}
LEFT JOIN names AS level_3 ON level_3.shop_id = bill_items.shop_id AND level_3.id = {third}
"""


def _bill_lines(elements: Elements) -> View:
    sql = BILL_LINES_SQL.format(first=elements.first, second=elements.second, third=elements.third, last=elements.last)
    return _view(
        "One row per line of a bill, with its shop, times, product and the names of its categories.",
        sql,
        (SHOPS, BILLS, BILL_ITEMS),
        (
            "shop_id",
            "shop_name",
            "bill_id",
            "line",
            "timestamp",
            "local_time",
            "business_date",
            "bill_date",
            "status",
            "channel_code",
            "channel_name",
            "service_type",
            "product_id",
            "root_id",
            "qty",
            "unit_price",
            "line_total",
            "cancelled",
            "is_tip",
        ),
        {
            "product_name": "Name of the product on this line.",
            "category_id": "ID of the most specific category.",
            "category_name": "Name of the most specific category, or its ID if the shop no longer lists it.",
            "category_level_1": "Name of the category at the top level, or its ID.",
            "category_level_2": "Name of the category at the second level, or its ID; null if there is none.",
            "category_level_3": "Name of the category at the third level, or its ID; null if there is none.",
            "is_sold": "False for lines of void bills, cancelled lines and tips.",
        },
    )


_SALES_OF_DAY = {
    "bills": "Number of bills that are not void.",
    "voids": "Number of void bills.",
    "revenue": "Sum of the bills' revenue: net without tips and voids.",
    "tips": "Sum of the tips of bills that are not void.",
}
DAILY_SALES_SQL = """
SELECT shop_id, business_date, count(CASE WHEN status <> 'void' THEN 1 END) AS bills,
    count(CASE WHEN status = 'void' THEN 1 END) AS voids, round(sum(revenue), 4) AS revenue,
    round(sum(CASE WHEN status = 'void' THEN 0 ELSE coalesce(tip, 0) END), 4) AS tips
FROM bills GROUP BY shop_id, business_date
"""
DAILY_SALES = _view(
    "One row per shop and business day. `bills` and all amounts are without voids.",
    DAILY_SALES_SQL,
    (BILLS,),
    ("shop_id", "business_date"),
    _SALES_OF_DAY,
)
DAILY_SALES_BY_CALENDAR_DAY_SQL = """
SELECT shop_id, bill_date, count(CASE WHEN status <> 'void' THEN 1 END) AS bills,
    count(CASE WHEN status = 'void' THEN 1 END) AS voids, round(sum(revenue), 4) AS revenue,
    round(sum(CASE WHEN status = 'void' THEN 0 ELSE coalesce(tip, 0) END), 4) AS tips
FROM bills GROUP BY shop_id, bill_date
"""
DAILY_SALES_BY_CALENDAR_DAY = _view(
    "One row per shop and calendar day. `bills` and all amounts are without voids.",
    DAILY_SALES_BY_CALENDAR_DAY_SQL,
    (BILLS,),
    ("shop_id", "bill_date"),
    _SALES_OF_DAY,
)
PRODUCT_MIX_SQL = """
SELECT bills.shop_id, bills.business_date, bill_items.root_id, bill_items.product_id, max(bill_items.name) AS name,
    round(sum(coalesce(bill_items.qty, 0)), 6) AS qty, round(sum(coalesce(bill_items.line_total, 0)), 4) AS line_total,
    count(DISTINCT bills.id) AS bills
FROM bills JOIN bill_items ON bill_items.shop_id = bills.shop_id AND bill_items.bill_id = bills.id
WHERE bills.status <> 'void' AND NOT bill_items.cancelled AND NOT bill_items.is_tip
GROUP BY bills.shop_id, bills.business_date, bill_items.root_id, bill_items.product_id,
    CASE WHEN bill_items.product_id IS NULL THEN bill_items.name END
"""
PRODUCT_MIX = _view(
    "One row per shop, business day and product, without voids, cancelled lines and tips.",
    PRODUCT_MIX_SQL,
    (BILLS, BILL_ITEMS),
    ("shop_id", "business_date", "root_id", "product_id"),
    {
        "name": "Name of the product; of several on a day, the last in alphabetical order.",
        "qty": "Sum of the quantities sold.",
        "line_total": "Sum of the totals of the lines, before discounts of the bill.",
        "bills": "Number of bills with the product.",
    },
)
PAYMENTS_BY_METHOD_SQL = """
SELECT bills.shop_id, bills.business_date, payments.name AS method, count(*) AS payments,
    round(sum(coalesce(payments.amount, 0) - coalesce(payments.change, 0)), 4) AS amount
FROM bills JOIN payments ON payments.shop_id = bills.shop_id AND payments.bill_id = bills.id
WHERE bills.status <> 'void' GROUP BY bills.shop_id, bills.business_date, payments.name
"""
PAYMENTS_BY_METHOD = _view(
    "One row per shop, business day and payment method, without voids. `amount` is without change, with tips.",
    PAYMENTS_BY_METHOD_SQL,
    (BILLS,),
    ("shop_id", "business_date"),
    {
        "method": "Name of the payment method.",
        "payments": "Number of payments.",
        "amount": "Sum of the amounts without change, with tips.",
    },
)
MEMBER_ACTIVITY_SQL = """
SELECT member_id, count(*) AS bills, round(sum(revenue), 4) AS revenue, min(bill_date) AS first_day,
    max(bill_date) AS last_day
FROM bills WHERE member_id IS NOT NULL AND status <> 'void' GROUP BY member_id
"""
MEMBER_ACTIVITY = _view(
    "One row per member with a bill that is not void. Days are calendar days.",
    MEMBER_ACTIVITY_SQL,
    (BILLS,),
    ("member_id",),
    {
        "bills": "Number of the member's bills that are not void.",
        "revenue": "Sum of the revenue of these bills.",
        "first_day": "Calendar day of the first of these bills.",
        "last_day": "Calendar day of the last of these bills.",
    },
)


def _views(elements: Elements) -> dict[str, View]:
    return {
        "bill_lines": _bill_lines(elements),
        "daily_sales": DAILY_SALES,
        "daily_sales_by_calendar_day": DAILY_SALES_BY_CALENDAR_DAY,
        "product_mix": PRODUCT_MIX,
        "payments_by_method": PAYMENTS_BY_METHOD,
        "member_activity": MEMBER_ACTIVITY,
    }


DUCKDB_VIEWS = _views(_DUCKDB)
POSTGRES_VIEWS = _views(_POSTGRES)
SQLITE_VIEWS = _views(_SQLITE)
