"""What was shown and accepted in the console counts once, and for nothing that was not shown."""

import pytest
from msgspec.structs import replace

from counterfoil.domain.acceptances import (
    NO_DOUBTS,
    AcceptedRecords,
    ShownDoubts,
    accepted_item,
    accepted_records,
    shown_doubts,
)
from counterfoil.domain.doubts import DeliveryDoubt
from counterfoil.domain.replacements import ReplacementGuard

REPLACED = DeliveryDoubt("replaced", 9, 60)
SHOWN = ShownDoubts((REPLACED, DeliveryDoubt("undated", 30, 60)), moved=4, others=3, incomplete=2)


@pytest.mark.parametrize(
    "found",
    [
        NO_DOUBTS,
        SHOWN,
        replace(SHOWN, doubts=(REPLACED,)),
        replace(SHOWN, doubts=(DeliveryDoubt("replaced", 8, 60),), others=2),
    ],
)
def test_doubts_that_were_shown_are_covered(found: ShownDoubts) -> None:
    assert SHOWN.covers(found)


@pytest.mark.parametrize(
    "found",
    [
        replace(SHOWN, doubts=(DeliveryDoubt("replaced", 10, 60),)),
        replace(SHOWN, doubts=(DeliveryDoubt("no_items", 1, 60),)),
        replace(SHOWN, doubts=(DeliveryDoubt("unknown_field", 1, 60, field="bill: x"),)),
        replace(SHOWN, moved=5),
        replace(SHOWN, moved=3, others=4),
        replace(SHOWN, moved=0, others=0, incomplete=3),
        replace(SHOWN, same_load=3),
        replace(SHOWN, has_same_sales=True),
    ],
)
def test_a_doubt_that_was_not_shown_is_not_covered(found: ShownDoubts) -> None:
    assert not SHOWN.covers(found)


def test_bills_that_raise_no_doubt_because_they_are_few_are_not_compared() -> None:
    few = ReplacementGuard(is_export=True, bills=100, moved=2)
    assert shown_doubts([], few) == NO_DOUBTS
    assert shown_doubts([REPLACED], few).moved == 2


def test_an_acceptance_ends_with_its_item() -> None:
    records = AcceptedRecords("0f", 7, SHOWN, compared_with="1a")
    item = accepted_item("sales.ndjson", records)
    assert accepted_records(item) == records
    assert accepted_records(replace(item, closed_by="loaded")) == AcceptedRecords("0f", 7, NO_DOUBTS)
    assert accepted_records(accepted_item("sales.ndjson")) is None
