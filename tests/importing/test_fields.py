"""A mapping can fill every field that fits in a table: in a bill's source record, its lines and its payments."""

import pytest

from counterfoil.importing.mapped_fields import BILL_FIELDS, LINE_FIELDS, PAYMENT_FIELDS
from counterfoil.importing.mapping import GROUPS
from counterfoil.ingest.fields import FieldType, known_fields

# Fields that a mapping cannot fill from one column: the kind of record, and lists of objects in a bill.
NOT_IN_A_TABLE = {"kind", "lines", "payments", "amounts.campaigns", "amounts.coupons"}


def names(known: FieldType) -> set[str]:
    found = set()
    for name, one in (known.fields or {}).items():
        found |= {f"{name}.{inner}" for inner in one.fields or {}} if name in GROUPS else {name}
    return found


def elements(name: str) -> FieldType:
    found = (known_fields("bill").fields or {})[name].elements
    assert found is not None
    return found


def test_a_mapping_can_fill_every_field_of_a_bill_that_fits_in_a_table() -> None:
    assert set(BILL_FIELDS) - {"voidReason", "timezone"} == names(known_fields("bill")) - NOT_IN_A_TABLE


@pytest.mark.parametrize(("fields", "name"), [(LINE_FIELDS, "lines"), (PAYMENT_FIELDS, "payments")])
def test_a_mapping_can_fill_every_field_of_lines_and_payments(fields: dict[str, str], name: str) -> None:
    # A cancelled payment is left out of the record.
    assert set(fields) - ({"cancelled"} if name == "payments" else set()) == names(elements(name))
