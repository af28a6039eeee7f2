"""The fields of the client's models are those that the service publishes."""

from typing import Any, get_type_hints

import msgspec
import pytest

from counterfoil.client import models
from counterfoil.domain import resources

PUBLISHED = {
    name: resource
    for name, resource in vars(resources).items()
    if isinstance(resource, type) and issubclass(resource, resources.Resource) and resource is not resources.Resource
}
# The client returns the token itself instead of a lookup's answer.
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
