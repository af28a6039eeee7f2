"""A completed template is the same JSON as the published member, for any time, base and caller."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json

from counterfoil.domain.members import (
    CUT,
    NEXT,
    Account,
    Base,
    Lot,
    StoredMember,
    Tier,
    fill_in,
    member_from,
    published,
    template_of,
)
from counterfoil.domain.pos_values import LAST_INSTANT
from counterfoil.domain.resources import Coupon

DAY = 86_400_000
NOW = 1769857509120
AMOUNT = 10**9

words = st.text(max_size=6) | st.sampled_from(
    ["gold", "silver", "bot_1", "bot_2", "\x1e", "\x1f", '"', "\\", "ส้ม", "\x00"]
)
instants = st.integers(NOW - 3, NOW + 3) | st.integers(0, LAST_INSTANT) | st.integers(-DAY, DAY)
amounts = st.integers(-AMOUNT, AMOUNT) | st.floats(-AMOUNT, AMOUNT).map(lambda amount: round(amount, 2))
lots = st.lists(st.builds(Lot, amounts, st.none() | instants), max_size=4)
texts = st.none() | words
records = st.builds(
    StoredMember,
    token=words,
    provider_id=st.just("mb_a"),
    created_date=texts,
    rank=texts,
    rank_level=st.none() | st.integers(0, 3),
    points=lots,
    credit=lots,
    coupons=st.lists(
        st.builds(Coupon, code=texts, status=st.none(), template_id=texts, name=texts, expire_at=texts), max_size=2
    ),
    labels=st.lists(words, max_size=2),
    persona=st.lists(words, max_size=2),
    visit_count=st.integers(0, 99),
    last_visit=texts,
    tel=texts,
    email=texts,
    accounts=st.lists(st.builds(Account, texts, words), max_size=3),
)
bases = st.none() | st.builds(
    Base,
    provider_id=st.just("mb_a"),
    tiers=st.lists(st.builds(Tier, texts, texts), max_size=4),
    auto_tiers=st.booleans(),
    credit_enabled=st.booleans(),
    messaging_channel=texts,
    older_messaging_channels=st.lists(words, max_size=2),
)
clocks = st.integers(NOW - 4, NOW + 4) | st.integers(0, LAST_INSTANT + DAY)


def somebody(**fields: Any) -> StoredMember:
    given_fields = {"kind": "member", "id": "4711", "providerId": "mb_a", **fields}
    return member_from(given_fields, lambda member: f"m1_{member}", lambda user: f"#{user}")


@given(st.lists(records, max_size=4), bases, clocks, st.booleans())
def test_a_page_of_templates_publishes_the_same_members_as_their_records(
    page: list[StoredMember], base: Base | None, now: int, personal_data: bool
) -> None:
    stored = NEXT.join(map(template_of, page))
    members = [published(record, base, now, personal_data) for record in page]
    assert b"[%b]" % fill_in(stored, base, now, personal_data) == json.encode(members)


@given(records, bases, st.lists(clocks, min_size=2, max_size=5))
def test_one_template_can_be_used_at_any_time(record: StoredMember, base: Base | None, moments: list[int]) -> None:
    stored = template_of(record)
    for now in moments:
        assert fill_in(stored, base, now, False) == json.encode(published(record, base, now, False))


@pytest.mark.parametrize("neighbours", [0, 1, 3])
def test_a_template_with_too_few_or_too_many_pieces_is_refused(neighbours: int) -> None:
    sound = [template_of(somebody(tel="0812345678"))] * neighbours
    whole = template_of(somebody())
    for damaged in (whole.rpartition(CUT)[0], whole + CUT):
        with pytest.raises(ValueError, match="wrong number of pieces"):
            fill_in(NEXT.join([damaged, *sound]), None, NOW, False)
