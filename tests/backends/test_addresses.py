"""Addresses that name one server or several."""

import pytest

from counterfoil.backends.postgres.addresses import addresses
from counterfoil.ports import StoreUnavailable


@pytest.mark.parametrize(
    "url", ["postgresql://u:p@db/c", "postgresql://u@db:5433/c", "postgres:///c", "postgresql:///c?host=/run/pg"]
)
def test_an_address_of_one_server_has_no_other_servers(url: str) -> None:
    assert addresses(url) == []


@pytest.mark.parametrize(
    ("hosts", "named"),
    [
        ("a:5432,b:5433", ["a:5432", "b:5433"]),
        ("a,b", ["a:5432", "b:5432"]),
        ("a,b:6000", ["a:5432", "b:6000"]),
        ("[::1]:5432,10.0.0.2:5432,c", ["::1:5432", "10.0.0.2:5432", "c:5432"]),
    ],
)
def test_each_server_of_an_address_is_named_with_its_port(hosts: str, named: list[str]) -> None:
    assert [server.name for server in addresses(f"postgresql://user:secret@{hosts}/counterfoil")] == named


def test_a_single_port_applies_to_all_servers() -> None:
    found = addresses("postgresql:///counterfoil?host=a,b&port=6000")
    assert [server.name for server in found] == ["a:6000", "b:6000"]


def test_an_unreadable_address_is_refused() -> None:
    with pytest.raises(StoreUnavailable):
        addresses("postgresql://a,b/c?port=1,2,3")
