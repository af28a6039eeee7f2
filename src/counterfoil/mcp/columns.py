"""The columns of a copy that an assistant may see. Other columns are not loaded into the snapshot.

A test requires that each column of `client/tables.py` is either published or
withheld here, so that nobody publishes a new field by accident.
"""

PUBLISHED: dict[str, tuple[str, ...]] = {
    "shops": ("shop_id", "shop_name", "franchise_id", "provider_id", "timezone", "removed_at"),
    "categories": ("shop_id", "position", "id", "name", "level", "parent_id", "hidden"),
    "bills": (
        "shop_id",
        "id",
        "receipt_number",
        "timestamp",
        "business_date",
        "bill_date",
        "updated_at",
        "channel_code",
        "channel_name",
        "service_type",
        "subtotal",
        "discount",
        "discount_total",
        "service_charge",
        "delivery_fee",
        "card_surcharge",
        "credit",
        "vat",
        "vat_type",
        "rounding",
        "tip",
        "net",
        "status",
    ),
    "bill_items": (
        "shop_id",
        "bill_id",
        "line",
        "product_id",
        "root_id",
        "name",
        "qty",
        "unit_price",
        "line_total",
        "category",
        "cancelled",
        "vat",
        "is_tip",
    ),
    "item_options": ("shop_id", "bill_id", "line", "position", "choice_id", "choice_name", "qty"),
    "payments": ("shop_id", "bill_id", "position", "name", "amount", "change"),
    "promotions": ("shop_id", "bill_id", "kind", "position", "name", "amount"),
    "members": (
        "provider_id",
        "rank",
        "rank_level",
        "rank_name",
        "points",
        "credit",
        "credit_enabled",
        "visit_count",
        "last_visit",
        "removed_at",
    ),
}

# Most of these columns contain contact data, names of people, IDs, or text that staff can type freely: a table may be
# named after a guest, and a reason or a label can contain anything. Coupons are withheld, because anyone who knows a
# coupon's code can redeem it.
WITHHELD: dict[str, tuple[str, ...]] = {
    "bills": (
        "order_ids",
        "tax_number",
        "franchise_id",
        "device_id",
        "station_id",
        "table_name",
        "member_id",
        "void_reason",
        "cashier",
    ),
    "promotions": ("promotion_id",),
    "members": (
        "member_id",
        "labels",
        "persona",
        "created_date",
        "has_tel",
        "has_email",
        "has_messaging",
        "tel",
        "email",
    ),
    "coupons": ("member_id", "position", "code", "status", "template_id", "name", "expire_at"),
}

# Boolean columns that are computed when the copy is read, keyed by table. An entry names the column and a withheld
# column; the computed column is true in the rows in which the withheld column is not null.
PRESENCE = {"bills": ("has_member", "member_id")}
