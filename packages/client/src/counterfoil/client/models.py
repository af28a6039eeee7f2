"""Types of the objects that the service returns: dictionaries with the field names of the API.

Money, quantities and points are `Decimal`. Fields that are unknown to this release are kept. The types are made from
`model/resources.py`. `make docs` writes the same types into `models.pyi`, which type checkers read instead.
"""

from datetime import datetime
from decimal import Decimal
from functools import cache, reduce
from operator import or_
from typing import Any, Generic, Literal, NotRequired, TypedDict, TypeVar, get_args, get_origin

from msgspec import Struct, field

from counterfoil.client.connection import Position
from counterfoil.model import resources

Row = TypeVar("Row")


class Page(Struct, Generic[Row], frozen=True):
    """One page of a list. `remaining` requests are left today; `mark` is set on the last page of a feed's pass."""

    data: list[Row]
    next_cursor: Position | None = field(name="nextCursor", default=None)
    server_time: str = field(name="serverTime", default="")
    remaining: int | None = None
    mark: Position | None = None

    def __post_init__(self) -> None:
        if datetime.fromisoformat(self.server_time).tzinfo is None:
            raise ValueError(self.server_time)


@cache
def _typed(resource: type[resources.Resource]) -> Any:
    return TypedDict(resource.__name__, {field.name: _annotation(field) for field in resources.fields_of(resource)})


def _annotation(field: resources.Field) -> Any:
    [first, *_] = types = resources.alternatives(field.declared)
    value = get_args(first)[0] if field.many else first
    if float in types:
        value = Decimal
    elif field.part is not None:
        value = _typed(field.part)
    elif get_origin(value) is Literal and len(get_args(value)) > 1:
        # A value that the service adds later must not be an error, except where it distinguishes elements of the feed.
        value = str
    value = list[value] if field.many else value
    value = value | None if type(None) in get_args(field.declared) else value
    return value if field.required else NotRequired[value]


# Every published object has a type with its name.
globals().update({resource.__name__: _typed(resource) for resource in resources.Resource.__subclasses__()})
_ELEMENTS = (resources.ChangedBill, resources.RemovedBill, resources.ChangedShop, resources.RemovedShop)
Change = reduce(or_, map(_typed, _ELEMENTS))
