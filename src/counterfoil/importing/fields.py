"""The fields of source records that a mapping can fill, and the type of each.

The names are those of docs/source-records.md, with a dot between an object and its field. `voidReason` stands for the
reason within `void`, and `timezone` is the zone of the bill's times.
"""

from enum import StrEnum, auto
from typing import Final


class Cell(StrEnum):
    """How the cells of a field are read."""

    TEXT = auto()
    NUMBER = auto()
    TIME = auto()
    DAY = auto()
    FLAG = auto()
    LIST = auto()
    OPTIONS = auto()


def _typed(**names: str) -> dict[str, str]:
    """Return the type of each field; the argument with the name of a type has its fields."""
    return {field: Cell(kind) for kind, fields in names.items() for field in fields.split()}


BILL_FIELDS: Final = _typed(
    text="id shopId timezone receiptNumber taxNumber deviceId stationId cashier table.id table.name channel.id "
    "channel.name buffetPackageId serviceType memberId voidReason amounts.vatType",
    number="rev amounts.subtotal amounts.discount amounts.discountTotal amounts.serviceCharge amounts.deliveryFee "
    "amounts.cardSurcharge amounts.credit amounts.vat amounts.rounding amounts.tip amounts.net",
    time="closedAt",
    day="tradingDay",
    flag="removed history void",
    list="orderIds",
)
LINE_FIELDS: Final = _typed(
    text="productId rootId name",
    number="qty unitPrice total",
    options="options",
    list="categoryIds",
    flag="cancelled vat tip",
)
# A cancelled payment is left out.
PAYMENT_FIELDS: Final = _typed(text="name", number="amount change", flag="cancelled")
GROUPS: Final = frozenset({"amounts", "table", "channel"})
