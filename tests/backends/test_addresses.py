"""Tests for addresses that name one server or several."""

import pytest

from counterfoil.backends.postgres.addresses import addresses
from counterfoil.ports import StoreUnavailable


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("postgresql://u:p@db/c", []),
        ("postgresql://u@db:5433/c", []),
        ("postgres:///c", []),
        ("postgresql:///c?host=/run/pg", []),
        ("postgresql://user:secret@a:5432,b:5433/c", ["a:5432", "b:5433"]),
        ("postgresql://user:secret@a,b:6000/c", ["a:5432", "b:6000"]),
        ("postgresql://u@[::1]:5432,10.0.0.2:5432,c/c", ["::1:5432", "10.0.0.2:5432", "c:5432"]),
        ("postgresql:///c?host=a,b&port=6000", ["a:6000", "b:6000"]),
    ],
)
def test_each_of_several_servers_of_an_address_is_named_with_its_port(url: str, named: list[str]) -> None:
    assert [server.name for server in addresses(url)] == named


def test_an_unreadable_address_is_refused() -> None:
    with pytest.raises(StoreUnavailable):
        addresses("postgresql://a,b/c?port=1,2,3")
