"""The client's models have the same fields as the resources that the service publishes."""

from decimal import Decimal
from typing import Any, get_type_hints

import msgspec
import pytest

from counterfoil.client import calls, models
from counterfoil.client.conversation import HttpResponse
from counterfoil.domain import resources

PUBLISHED = {
    name: resource
    for name, resource in vars(resources).items()
    if isinstance(resource, type) and issubclass(resource, resources.Resource) and resource is not resources.Resource
}
# The client does not return this object: a lookup returns the bare token.
UNPACKED = {"MemberReference"}


def wire_names(resource: type) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(resource)]


@pytest.mark.parametrize("name", sorted(set(PUBLISHED) - UNPACKED))
def test_a_model_has_the_fields_of_its_resource_in_their_order(name: str) -> None:
    model: Any = getattr(models, name)
    assert list(get_type_hints(model)) == wire_names(PUBLISHED[name])


@pytest.mark.parametrize("name", sorted(set(PUBLISHED) - UNPACKED))
def test_a_field_is_optional_in_the_model_if_the_service_may_omit_it(name: str) -> None:
    model: Any = getattr(models, name)
    optional = {field.encode_name for field in msgspec.structs.fields(PUBLISHED[name]) if not field.required}
    assert set(model.__optional_keys__) == optional


@pytest.mark.parametrize("name", sorted(set(PUBLISHED) - UNPACKED))
def test_a_number_is_a_decimal_in_the_model_if_it_may_have_a_fraction(name: str) -> None:
    hints = get_type_hints(getattr(models, name))
    for field in msgspec.structs.fields(PUBLISHED[name]):
        has_fraction = "float" in str(field.type)
        assert ("Decimal" in str(hints[field.encode_name])) == has_fraction, field.encode_name


@pytest.mark.parametrize(
    "number", ["0.1", "0.10", "19.99", "1e3", "1E-7", "7", "8935002455.22", "12345678901234567890.123456789", "9" * 30]
)
def test_a_number_is_decoded_with_all_its_digits(number: str) -> None:
    body = f'{{"data": {{"points": {number}, "credit": 0}}}}'.encode()
    points = calls.parse_object(HttpResponse(200, {}, body), models.with_decimal_balances)["points"]
    assert type(points) is Decimal
    assert points.as_tuple() == Decimal(number).as_tuple()
