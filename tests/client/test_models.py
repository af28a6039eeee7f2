"""The client decodes numbers exactly. tests/upkeep/test_fields_everywhere.py compares its types with the resources."""

from decimal import Decimal

import pytest

from counterfoil.client import calls
from counterfoil.client.connection import HttpResponse


@pytest.mark.parametrize(
    "number", ["0.1", "0.10", "19.99", "1e3", "1E-7", "7", "8935002455.22", "12345678901234567890.123456789", "9" * 30]
)
def test_a_number_is_decoded_with_all_its_digits(number: str) -> None:
    body = f'{{"data": {{"points": {number}, "credit": 0}}}}'.encode()
    points = calls.parse_object(HttpResponse(200, {}, body), calls.to_member)["points"]
    assert type(points) is Decimal
    assert points.as_tuple() == Decimal(number).as_tuple()
