"""A fresh cursor has the same format as the row IDs of its list."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.domain.paging import fresh_cursor

RANDOM = st.text("0123456789abcdef", min_size=16, max_size=16)


@pytest.mark.parametrize(
    ("like", "shape"),
    [
        ("m1_8sKd02MsWq0aLs93kdFp20sSdf99a1bC", r"m1_\d[a-z][A-Z][a-z]\d\d[A-Z].*"),
        ("64f1c0ffee64f1c0ffee0000", r"[0-9a-f]{24}"),
        ("550e8400-e29b-41d4-a716-446655440000", r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
        ("x002", r"[a-z]\d{3}"),
        ("17", r"\d{2}"),
        ("-", r"-"),
        ("ใบเสร็จ-7", r"ใบเสร็จ-\d"),
        ("BILL_2026_000000000017", r"BILL_\d{4}_\d{12}"),
    ],
)
def test_a_fresh_cursor_has_the_shape_of_the_id(like: str, shape: str) -> None:
    assert re.fullmatch(shape, fresh_cursor(like, "0123456789abcdef"))


@given(st.text(string.ascii_letters + string.digits + "-_ก", min_size=1, max_size=40), RANDOM)
def test_a_fresh_cursor_is_as_long_as_the_id_or_long_enough_to_be_unique(like: str, random: str) -> None:
    assert len(fresh_cursor(like, random)) == len(like)
    assert len(fresh_cursor(like, random, longer=True)) == len(like) + 16
