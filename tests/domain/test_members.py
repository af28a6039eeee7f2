"""Tests for converting a raw member record to the stored record, and the stored record to the published member."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.domain import members
from counterfoil.model.calendar import DAY_MS
from counterfoil.model.pos_values import LAST_INSTANT, Unreadable
from counterfoil.model.resources import Coupon, Member
from records import at

NOW = 1769857509120
SOON = "2026-01-31T18:05:09.121+07:00"
END_OF_DAY = 1769878799999
SOMEBODY = "U" + "0af1" * 8
BASE: dict[str, Any] = {
    "kind": "base",
    "id": "mb_a",
    "creditEnabled": True,
    "tiers": [{"code": "silver", "name": "Silver"}, {"code": "gold", "name": "Gold"}],
    "messagingChannel": "bot_2",
    "olderMessagingChannels": ["bot_1"],
}


def token_of(member: str) -> str:
    return f"m1_{member[::-1]}"


def hash_of(user_id: str) -> str:
    return f"#{sum(map(ord, user_id))}"


def base(**fields: object) -> members.Base:
    return members.base_from({**BASE, **fields})


def kept(**fields: object) -> members.StoredMember:
    return members.member_from({"kind": "member", "id": "4711", "providerId": "mb_a", **fields}, token_of, hash_of)


def shown(of_base: members.Base | None = None, now: int = NOW, **fields: object) -> Member:
    return members.published(kept(**fields), of_base or base(), now, personal_data=False)


# --- rules for fields ------------------------------------------------------

# Each rule has a name, fields of the base, the path in a published member, its value, and the fields of members.
RULES = json.loads(Path(__file__).with_name("member_rules.json").read_text("utf-8"))


@pytest.mark.parametrize(
    ("of_base", "path", "expected", "records"), [rule[1:] for rule in RULES], ids=[rule[0] for rule in RULES]
)
def test_a_field_of_a_member_follows_its_rule(
    of_base: dict[str, Any], path: str, expected: Any, records: list[dict[str, Any]]
) -> None:
    found = [at(msgspec.to_builtins(shown(base(**of_base), **fields)), path) for fields in records]
    assert found == [expected] * len(records)


# --- the whole member ------------------------------------------------------


@pytest.mark.parametrize("missing", ["id", "providerId"])
def test_a_member_without_a_usable_id_or_base_is_refused(missing: str) -> None:
    with pytest.raises(Unreadable):
        kept(**{missing: " "})


def test_a_member_and_a_bill_turn_the_same_internal_id_into_the_same_token() -> None:
    assert kept(id=4711).token == kept(id="4711").token == token_of("4711")


# --- personal data ---------------------------------------------------------


@pytest.mark.parametrize(("tel", "digits"), [(66812345678, "66812345678"), (812345678.0, "812345678")])
def test_a_phone_number_recorded_as_a_number_is_kept_as_its_digits(tel: object, digits: str) -> None:
    member = members.published(kept(tel=tel), base(), NOW, personal_data=True)
    assert (member.tel, member.has_tel) == (digits, True)


# --- points and credit -----------------------------------------------------


@given(st.lists(st.floats(-1e6, 1e6) | st.integers(-(10**9), 10**9), max_size=6))
def test_the_order_of_points_does_not_matter(amounts: list[float]) -> None:
    forwards, backwards = (
        shown(points=[{"amount": amount} for amount in lots]).points for lots in (amounts, amounts[::-1])
    )
    assert forwards == backwards


@pytest.mark.parametrize("never", [None, "", "never", "9999-12-31T23:59:59Z"])
def test_a_lot_without_a_readable_expiry_never_expires(never: object) -> None:
    assert shown(points=[{"amount": 10, "expireAt": never}], now=200_000_000_000_000).points == 10


@pytest.mark.parametrize("day", ["2026-01-31", "20260131", 20260131])
def test_points_that_expire_on_a_day_are_usable_through_that_thai_day(day: object) -> None:
    last = kept(points=[{"amount": 10, "expireAt": "2026-01-31T23:59:59.999+07:00"}])
    assert kept(points=[{"amount": 10, "expireAt": day}]) == last
    assert shown(points=[{"amount": 10, "expireAt": day}], now=END_OF_DAY - 1).points == 10
    assert shown(points=[{"amount": 10, "expireAt": day}], now=END_OF_DAY).points == 0


@pytest.mark.parametrize("far", ["9999-12-31", "9999-12-31T23:59:59Z", 253_402_300_799, 10**15])
def test_an_expiry_in_the_far_future_is_the_last_representable_instant_for_lots_and_coupons(far: object) -> None:
    member = kept(points=[{"amount": 10, "expireAt": far}], coupons=[{"expireAt": far}])
    assert member.points == [members.Lot(10, LAST_INSTANT)]
    assert member.coupons[0].expire_at == "9999-12-31T16:59:59.999+07:00"


@pytest.mark.parametrize("points", [12, "12", 12.0, [{"amount": "12.00"}]])
def test_points_are_read_as_a_number_or_as_lots(points: object) -> None:
    assert msgspec.json.encode(shown(points=points).points) == b"12"


def test_until_its_base_is_known_a_member_has_no_tier_and_no_credit() -> None:
    member = members.published(kept(rank="gold", rankLevel=1, credit=5, points=5), None, NOW, personal_data=False)
    shown_fields = (member.rank, member.rank_name, member.credit, member.credit_enabled, member.points)
    assert shown_fields == ("gold", None, 0, False, 5)


# --- tiers -----------------------------------------------------------------


def test_a_tier_without_code_or_name_keeps_its_position_in_the_list() -> None:
    tiers = [members.Tier("a", None), members.Tier(None, None), members.Tier(None, "C")]
    assert base(tiers=[{"code": "a"}, {}, None, {"name": "C"}]).tiers == tiers


# --- messaging -------------------------------------------------------------


def test_a_messaging_account_is_kept_as_its_channel_and_a_keyed_hash() -> None:
    assert kept(messaging=[{"channel": 7, "userId": SOMEBODY}]).accounts == [members.Account("7", hash_of(SOMEBODY))]


def test_an_account_recorded_twice_is_kept_once() -> None:
    assert len(kept(messaging=[{"userId": SOMEBODY}, {"userId": SOMEBODY}]).accounts) == 1


@pytest.mark.parametrize("user_id", [None, "", " ", 5, True, {}])
def test_an_account_without_a_user_id_is_ignored(user_id: object) -> None:
    assert kept(messaging=[{"userId": user_id}, "U", None]).accounts == []


def test_every_channel_counts_while_the_base_is_not_loaded_and_none_if_it_declares_none() -> None:
    assert members.is_current_account(None, "bot_9")
    assert not members.is_current_account(members.Base(provider_id="mb_a"), "bot_9")
    assert members.is_current_account(members.Base(provider_id="mb_a"), None)


# --- arbitrary input -------------------------------------------------------

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None), max_size=8)
    | st.sampled_from([10**4000, 1e308, -1e18, "1_0", "๕", "2026-01-31", SOON, 1769857509, "9999-12-31T23:59:59Z"])
)
NAMES = "amount expireAt code status templateId name providerId at channel userId"
names = st.sampled_from(NAMES.split())
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4), max_leaves=10
)
MEMBER = "createdAt rank rankLevel points credit coupons labels persona visits tel email messaging"
BASE_FIELDS = "tiers autoTiers creditEnabled messagingChannel olderMessagingChannels"


@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(MEMBER.split(), anything)),
    st.fixed_dictionaries({}, optional=dict.fromkeys(BASE_FIELDS.split(), anything)),
    st.booleans(),
)
def test_a_member_with_any_field_values_can_be_stored_and_published(
    fields: dict[str, Any], base_fields: dict[str, Any], personal_data: bool
) -> None:
    record = msgspec.json.decode(msgspec.json.encode(kept(**fields)), type=members.StoredMember)
    of_base = msgspec.json.decode(msgspec.json.encode(base(**base_fields)), type=members.Base)
    assert (record, of_base) == (kept(**fields), base(**base_fields))
    member = members.published(record, of_base, NOW, personal_data)
    assert msgspec.json.decode(msgspec.json.encode(member), type=Member) == member
    assert member.points >= 0
    assert member.credit >= 0


# --- templates: the same JSON as the published member, for any time, base and caller -----

words = st.text(max_size=6) | st.sampled_from(
    ["gold", "silver", "bot_1", "bot_2", "\x1e", "\x1f", '"', "\\", "ส้ม", "\x00"]
)
instants = st.integers(NOW - 3, NOW + 3) | st.integers(0, LAST_INSTANT) | st.integers(-DAY_MS, DAY_MS)
amounts = st.integers(-(10**9), 10**9) | st.floats(-(10**9), 10**9).map(lambda amount: round(amount, 2))
lots = st.lists(st.builds(members.Lot, amounts, st.none() | instants), max_size=4)
texts = st.none() | words
records = st.builds(
    members.StoredMember,
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
    accounts=st.lists(st.builds(members.Account, texts, words), max_size=3),
)
bases = st.none() | st.builds(
    members.Base,
    provider_id=st.just("mb_a"),
    tiers=st.lists(st.builds(members.Tier, texts, texts), max_size=4),
    auto_tiers=st.booleans(),
    credit_enabled=st.booleans(),
    messaging_channel=texts,
    older_messaging_channels=st.lists(words, max_size=2),
)
clocks = st.integers(NOW - 4, NOW + 4) | st.integers(0, LAST_INSTANT + DAY_MS)


@given(st.lists(records, max_size=4), bases, clocks, st.booleans())
def test_a_page_of_templates_publishes_the_same_members_as_their_records(
    page: list[members.StoredMember], of_base: members.Base | None, now: int, personal_data: bool
) -> None:
    stored = members.NEXT.join(map(members.template_of, page))
    expected = [members.published(record, of_base, now, personal_data) for record in page]
    assert b"[%b]" % members.fill_in(stored, of_base, now, personal_data) == msgspec.json.encode(expected)


@pytest.mark.parametrize("neighbours", [0, 1, 3])
def test_a_template_with_too_few_or_too_many_pieces_is_refused(neighbours: int) -> None:
    sound = [members.template_of(kept(tel="0812345678"))] * neighbours
    whole = members.template_of(kept())
    for damaged in (whole.rpartition(members.CUT)[0], whole + members.CUT):
        with pytest.raises(ValueError, match="wrong number of pieces"):
            members.fill_in(members.NEXT.join([damaged, *sound]), None, NOW, False)
