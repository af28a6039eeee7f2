"""Tests for reading the books: shops, bills and members, on every back end."""

import json

import pytest

from counterfoil.domain.access import Scope, ScopeKind
from counterfoil.domain.members import fill_in
from counterfoil.domain.paging import Position
from counterfoil.ports import BillPage, MemberPage, Slice
from ports.open_store import EVER, PSEUDONYMS, OpenStore, base, bill, gone, member, shop

FRANCHISE = Scope("franchise", "fr_a")
SH_1 = (FRANCHISE, "sh_1")
AT = "2025-12-{:02}T12:00:00+07:00"


def ids(rows: list[dict[str, str]]) -> list[str]:
    return [row["id"] for row in rows]


# --- shops -------------------------------------------------------------------


def test_a_removed_shop_is_not_listed_and_still_in_scope(open_store: OpenStore) -> None:
    open_store.put(shop("sh_1"), shop("sh_2"))
    open_store.put(gone(shop("sh_1")))
    assert [json.loads(body)["shopId"] for body in open_store.books.shops(FRANCHISE).bodies] == ["sh_2"]
    assert open_store.books.has_shop(FRANCHISE, "sh_1")


def test_a_shop_is_in_scope_when_it_is_the_scope_or_one_of_its_branches(open_store: OpenStore) -> None:
    same_id = shop("fr_a", franchiseId=None, providerId="mb_x")
    open_store.put(shop("sh_1"), shop("sh_2", franchiseId="fr_b"), same_id)

    def known(kind: ScopeKind, scope_id: str) -> list[str]:
        every = ("sh_1", "sh_2", "sh_3", "fr_a")
        return [one for one in every if open_store.books.has_shop(Scope(kind, scope_id), one)]

    assert known("franchise", "fr_a") == ["sh_1"]
    assert known("shop", "sh_1") == ["sh_1"]
    assert known("shop", "sh_3") == []
    assert [json.loads(body)["shopId"] for body in open_store.books.shops(FRANCHISE).bodies] == ["sh_1"]
    assert not open_store.books.covers(FRANCHISE, "mb_x")


def test_a_shop_outside_the_scope_gives_no_page(open_store: OpenStore) -> None:
    open_store.put(shop("sh_1"), shop("sh_2", franchiseId="fr_b"))
    open_store.put(bill("b_1"))

    def page(scope: Scope, shop_id: str) -> list[int | None]:
        found = (
            open_store.books.bills_by_day(scope, shop_id, *EVER, Slice(5)),
            open_store.books.bills_by_change(scope, shop_id, 0, None, Slice(5)),
        )
        return [one.count if one else None for one in found]

    for _ in range(2):
        assert page(FRANCHISE, "sh_1") == page(Scope("shop", "sh_1"), "sh_1") == [1, 1]
        assert page(FRANCHISE, "sh_2") == page(FRANCHISE, "sh_3") == [None, None]
        assert page(Scope("shop", "sh_2"), "sh_1") == page(Scope("franchise", "sh_1"), "sh_1") == [None, None]


def test_bills_follow_their_shop_from_one_franchise_to_another(shop_store: OpenStore) -> None:
    shop_store.put(bill("b_1"))
    franchises = (FRANCHISE, Scope("franchise", "fr_b"))

    def pages() -> list[bool]:
        return [shop_store.books.bills_by_day(scope, "sh_1", *EVER, Slice(5)) is not None for scope in franchises]

    assert pages() == [True, False]
    shop_store.put(shop("sh_1", franchiseId="fr_b"))
    assert pages() == [False, True]


def test_ids_are_compared_exactly(open_store: OpenStore) -> None:
    open_store.put(shop("Sh_1"), shop("ｓh_1"))
    assert not open_store.books.has_shop(FRANCHISE, "sh_1")
    assert not open_store.books.has_shop(FRANCHISE, "SH_1")
    assert open_store.books.has_shop(FRANCHISE, "ｓh_1")


def test_a_scope_covers_the_bases_of_its_branches_and_no_others(open_store: OpenStore) -> None:
    open_store.put(shop("sh_1", providerId="mb_a"), shop("sh_2", providerId="mb_b"), shop("sh_3", providerId=None))
    open_store.put(shop("sh_4", providerId="mb_d"))
    open_store.put(gone(shop("sh_4")))
    covers = open_store.books.covers
    assert covers(FRANCHISE, "mb_a")
    assert covers(FRANCHISE, "mb_b")
    assert not covers(FRANCHISE, "mb_c")
    assert not covers(FRANCHISE, "mb_d")
    assert not covers(Scope("shop", "sh_4"), "mb_d")
    assert not covers(Scope("shop", "sh_1"), "mb_b")
    assert not covers(Scope("shop", "sh_3"), "mb_a")


# --- bills by day ------------------------------------------------------------


def test_a_bill_without_a_readable_time_is_in_no_day_but_can_be_read_by_id_and_by_change(shop_store: OpenStore) -> None:
    shop_store.put(bill(closedAt="yesterday"))
    assert shop_store.by_day() == []
    assert ids(shop_store.by_change()) == ["b_1"]
    assert shop_store.bill()["billDate"] is None


def test_bills_by_day_are_listed_oldest_first_and_ties_by_id(shop_store: OpenStore) -> None:
    shop_store.put(*(bill(f"b_{n * 7919 % 1000:03}", closedAt=AT.format(1 + n % 9)) for n in range(100)))
    by_day = shop_store.by_day()
    met = [f"{one['timestamp']} {one['id']}" for one in by_day]
    assert met == sorted(met)
    assert ids(shop_store.by_change()) == sorted(ids(by_day))
    page = shop_store.day_page("sh_1", *EVER, None, 1000)
    assert page.seal == b"".join(shop_store.books.bill(FRANCHISE, one["id"]).seal for one in by_day)


def test_bills_of_another_shop_never_appear(open_store: OpenStore) -> None:
    open_store.put(shop("sh_1"), shop("sh_2"))
    open_store.put(bill("b_1", "sh_1"), bill("b_2", "sh_2"))
    assert ids(open_store.by_day("sh_1")) == ["b_1"]
    assert ids(open_store.by_change("sh_2")) == ["b_2"]


# --- bills by change ---------------------------------------------------------


def test_the_lower_bound_includes_its_instant_and_all_ties(shop_store: OpenStore) -> None:
    shop_store.put(bill("b_0"))
    shop_store.put(bill("b_3"), bill("b_1"), bill("b_2"))
    stamp = shop_store.stamp("b_1")
    assert stamp is not None
    assert ids(shop_store.by_change(since=stamp)) == ["b_1", "b_2", "b_3"]
    assert shop_store.by_change(since=stamp + 1) == []


def test_the_upper_bound_excludes_later_changes(shop_store: OpenStore) -> None:
    shop_store.put(bill("b_1"))
    bound = shop_store.horizon()
    shop_store.put(bill("b_2"))
    assert ids(shop_store.by_change(until=bound)) == ["b_1"]
    assert ids(shop_store.by_change()) == ["b_1", "b_2"]


def test_every_page_has_the_horizon(shop_store: OpenStore) -> None:
    shop_store.put(bill())
    shop_store.put(base())
    horizon = shop_store.horizon()
    assert shop_store.books.bills_by_change(*SH_1, 0, None, Slice(5)).horizon == horizon
    assert shop_store.books.bills_by_day(*SH_1, *EVER, Slice(5)).horizon == horizon
    assert shop_store.books.members("mb_a", Slice(5)).horizon == horizon


# --- one bill ----------------------------------------------------------------


def test_a_bill_is_found_in_the_scope_of_its_shop_and_in_no_other(open_store: OpenStore) -> None:
    open_store.put(shop("sh_1"), shop("sh_2", franchiseId="fr_b"))
    open_store.put(bill("b_1", "sh_1"))
    find = open_store.books.bill
    assert json.loads(find(Scope("shop", "sh_1"), "b_1").body)["id"] == "b_1"
    assert find(FRANCHISE, "b_1") is not None
    assert find(Scope("shop", "sh_2"), "b_1") is None
    assert find(Scope("franchise", "fr_b"), "b_1") is None
    assert find(FRANCHISE, "b_2") is None


@pytest.mark.parametrize("page_of", ["day", "change"])
def test_a_page_says_whether_the_row_that_it_continues_after_still_exists(open_store: OpenStore, page_of: str) -> None:
    open_store.put(shop(), shop("sh_2"))
    open_store.put(bill("b_1"), bill("b_2"), bill("b_3"), bill("b_1", "sh_2"))

    def page(after: Position | None) -> BillPage:
        if page_of == "day":
            return open_store.day_page("sh_1", *EVER, after, 1)
        found: BillPage = open_store.books.bills_by_change(*SH_1, 0, None, Slice(1, after))
        return found

    first = page(None)
    assert first.continues
    assert first.last
    assert page(first.last).continues
    open_store.put(gone(bill("b_1")))
    assert page(None).continues
    assert not page(first.last).continues


# --- members -----------------------------------------------------------------


def tokens_on(page: MemberPage) -> list[str]:
    members = json.loads(b"[%b]" % fill_in(page.templates, page.base, 0, personal_data=False))
    assert len(members) == page.count
    return [member["memberId"] for member in members]


def test_members_are_listed_by_sign_up_oldest_first_and_those_without_one_last(open_store: OpenStore) -> None:
    open_store.put(
        member("1", createdAt="never"),
        member("2", createdAt="2025-03-02T10:00:00+07:00"),
        member("3", createdAt="2025-03-01T10:00:00+07:00"),
        member("4", "mb_b", createdAt="2025-03-01T10:00:00+07:00"),
    )
    page = open_store.books.members("mb_a", Slice(10))
    assert (page.count, page.last) == (3, None)
    assert tokens_on(page) == [PSEUDONYMS.member_token(i) for i in ("3", "2", "1")]


def test_a_page_of_members_says_whether_the_member_that_it_continues_after_still_exists(open_store: OpenStore) -> None:
    open_store.put(member("1"), member("2"))
    first = open_store.books.members("mb_a", Slice(1))
    assert first.continues
    assert open_store.books.members("mb_a", Slice(1, first.last)).continues
    assert not open_store.books.members("mb_b", Slice(1, first.last)).continues
    open_store.put(gone(member("1")), gone(member("2")))
    assert not open_store.books.members("mb_a", Slice(1, first.last)).continues


def test_a_member_is_returned_with_its_base_once_that_is_known(open_store: OpenStore) -> None:
    open_store.put(shop(), member("1"))
    token, scope = PSEUDONYMS.member_token("1"), Scope("shop", "sh_1")
    found = open_store.books.member(scope, token)
    assert (found.provider_id, found.base) == ("mb_a", None)
    assert open_store.books.members("mb_a", Slice(5)).base is None
    open_store.put(base(creditEnabled=True))
    assert open_store.books.member(scope, token).base.credit_enabled
    assert open_store.books.members("mb_a", Slice(5)).base.credit_enabled
    assert open_store.books.member(scope, "m1_nobody") is None


def test_a_member_is_found_in_every_scope_whose_branches_use_its_base(open_store: OpenStore) -> None:
    open_store.put(
        shop("sh_1"),
        shop("sh_2", providerId=None),
        shop("sh_3", franchiseId="fr_b", providerId="mb_b"),
        shop("sh_4", franchiseId="fr_c"),
        member("1"),
    )
    open_store.put(gone(shop("sh_4")))

    def finds(kind: ScopeKind, scope_id: str) -> bool:
        return open_store.books.member(Scope(kind, scope_id), PSEUDONYMS.member_token("1")) is not None

    assert [finds("shop", f"sh_{n}") for n in range(1, 6)] == [True, False, False, False, False]
    assert [finds("franchise", f"fr_{letter}") for letter in "abcd"] == [True, False, False, False]


def test_accounts_are_listed_most_recently_created_first_and_those_without_a_sign_up_last(
    open_store: OpenStore,
) -> None:
    account = [{"channel": "bot_1", "userId": "U1"}]
    open_store.put(base(messagingChannel="bot_1"))
    open_store.put(
        member("undated", createdAt="never", messaging=account),
        member("old", createdAt="2024-01-01T00:00:00Z", messaging=account),
        member("new", createdAt="2025-01-01T00:00:00Z", messaging=account),
        member("other base", "mb_b", createdAt="2025-06-01T00:00:00Z", messaging=account),
        member("other person", createdAt="2025-06-01T00:00:00Z", messaging=[{"channel": "bot_1", "userId": "U2"}]),
    )
    listed = open_store.books.accounts("mb_a", PSEUDONYMS.messaging_hash("U1"))
    assert listed.base.messaging_channel == "bot_1"
    assert [found.token for found in listed.accounts] == [PSEUDONYMS.member_token(i) for i in ("new", "old", "undated")]
    assert {found.channel for found in listed.accounts} == {"bot_1"}


def test_an_unlinked_account_is_no_longer_found(open_store: OpenStore) -> None:
    hashed = PSEUDONYMS.messaging_hash("U1")
    open_store.put(member("1", messaging=[{"userId": "U1"}]))
    open_store.put(member("1"))
    assert open_store.books.accounts("mb_a", hashed).accounts == []
    open_store.put(member("1", messaging=[{"userId": "U1"}]))
    open_store.put(gone(member("1")))
    assert open_store.books.accounts("mb_a", hashed).accounts == []
