"""A function an endpoint: authorise, ask a port, answer.

Nothing here knows HTTP. A refusal is raised as a row of the error table; an
answer carries finished JSON and the horizon that its rows can vouch for.
"""

from collections.abc import Callable
from functools import partial

from msgspec import UNSET, Struct, UnsetType, json

from counterfoil.domain import allowance, members
from counterfoil.domain.access import Key, Scope
from counterfoil.domain.allowance import Admitted
from counterfoil.domain.calendar import compact, days_until
from counterfoil.domain.forms import filled
from counterfoil.domain.paging import BY_CHANGE, BY_DAY, BY_SIGN_UP, Place, Resumed, Trail
from counterfoil.domain.problems import (
    BAD_CURSOR,
    LOOKUP_NOT_ENABLED,
    NOT_FOUND,
    PROVIDER_NOT_IN_SCOPE,
    SHOP_NOT_IN_SCOPE,
    Refused,
)
from counterfoil.domain.requests import BillList, ByChange, ByDay, Lookup, MemberList
from counterfoil.domain.resources import MemberReference
from counterfoil.domain.tokens import Pseudonyms
from counterfoil.ports import BillPage, Bookmarks, Books, Clock, Meter
from counterfoil.walks import Walks


class Caller(Struct, frozen=True):
    """Who asks: a key that passed the gate, and the count it was given."""

    key: Key
    admitted: Admitted


class Disclosure(Struct, frozen=True):
    """Personal data in an answer: of which base, of how many members."""

    provider_id: str
    members: int


class Answer(Struct, frozen=True, kw_only=True):
    """`data` is finished JSON, or the elements of a list, some of them joined already.

    `seal` changes with it and with nothing else.
    """

    data: bytes | list[bytes]
    horizon: int
    seal: bytes
    next_cursor: str | UnsetType | None = UNSET
    disclosure: Disclosure | None = None


class Reads:
    """The endpoints, over the ports they read from."""

    def __init__(
        self,
        *,
        books: Books,
        bookmarks: Bookmarks,
        meter: Meter,
        pseudonyms: Pseudonyms,
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        self._books = books
        self._meter = meter
        self._pseudonyms = pseudonyms
        self._clock = clock
        self._walks = Walks(bookmarks, new_id)

    async def shops(self, caller: Caller) -> Answer:
        shops = await self._books.shops(caller.key.scope)
        return Answer(data=shops.bodies, horizon=shops.horizon, seal=b"".join(shops.bodies))

    async def bills(self, caller: Caller, question: BillList) -> Answer:
        scope = caller.key.scope
        if scope.kind == "shop" and scope.id != question.shop_id:
            raise Refused(SHOP_NOT_IN_SCOPE)
        trail = Trail(caller.key.lineage, f"bills {question.shop_id}", _route(question.selection))
        cursor = question.cursor
        resumed = await self._resume_bills(scope, question, cursor, trail) if cursor is not None else None
        walk = resumed.walk if resumed else None
        ask = partial(self._bill_page, scope, question, resumed)
        page, next_cursor = await self._walks.page(trail, walk, question.limit, ask)
        return Answer(
            data=[page.bodies] if page.count else [],
            horizon=walk.horizon if walk else page.horizon,
            seal=page.seal,
            next_cursor=next_cursor,
        )

    async def bill(self, caller: Caller, bill_id: str) -> Answer:
        found = await self._books.bill(caller.key.scope, bill_id)
        if found is None:
            raise Refused(NOT_FOUND)
        return Answer(data=found.body, horizon=found.horizon, seal=found.seal)

    async def members(self, caller: Caller, question: MemberList) -> Answer:
        key, provider_id = caller.key, question.provider_id
        await self._require_provider(key, provider_id)
        trail = Trail(key.lineage, f"members {provider_id}", BY_SIGN_UP)
        resumed = None
        if question.cursor is not None:
            present = await self._books.member_place(provider_id, question.cursor)
            if present is None:
                raise Refused(BAD_CURSOR)
            resumed = await self._walks.go_on(trail, question.cursor, present)
        after, walk = (resumed.after, resumed.walk) if resumed else (None, None)
        reached = walk.horizon if walk else 0
        ask = partial(self._books.members, provider_id, after, reached=reached)
        page, next_cursor = await self._walks.page(trail, walk, question.limit, ask)
        now = self._clock.now_ms()
        data = b"[%b]" % filled(page.forms, page.base, now, key.personal_data)
        return Answer(
            data=data,
            horizon=page.horizon,
            seal=data,
            next_cursor=next_cursor,
            disclosure=_disclosure(key, provider_id, page.count),
        )

    async def member(self, caller: Caller, token: str) -> Answer:
        found = await self._books.member(caller.key.scope, token)
        if found is None:
            raise Refused(NOT_FOUND)
        data = filled(found.form, found.base, self._clock.now_ms(), caller.key.personal_data)
        disclosure = _disclosure(caller.key, found.provider_id, 1)
        return Answer(data=data, horizon=found.horizon, seal=data, disclosure=disclosure)

    async def lookup(self, caller: Caller, question: Lookup) -> Answer:
        await self._require_provider(caller.key, question.provider_id)
        hashed = self._pseudonyms.messaging_hash(question.messaging_user_id)
        found = await self._books.accounts(question.provider_id, hashed)
        for account in found.accounts:
            if members.answering(found.base, account.channel):
                data = json.encode(MemberReference(member_id=account.token))
                return Answer(data=data, horizon=found.horizon, seal=data)
        raise Refused(NOT_FOUND)

    async def usage(self, caller: Caller) -> Answer:
        key, admitted = caller.key, caller.admitted
        horizon = await self._books.horizon()
        counts = await self._meter.counts(key.key_id, days_until(admitted.day, allowance.USAGE_DAYS))
        data = json.encode(allowance.usage(key, admitted, counts))
        return Answer(data=data, horizon=horizon, seal=data)

    async def _resume_bills(self, scope: Scope, question: BillList, cursor: str, trail: Trail) -> Resumed:
        places = await self._books.bill_places(scope, question.shop_id, cursor)
        if places is None:
            known = scope.kind == "shop" or await self._books.has_shop(scope, question.shop_id)
            raise Refused(BAD_CURSOR if known else SHOP_NOT_IN_SCOPE)
        present = places.by_change if isinstance(question.selection, ByChange) else places.by_day
        if present is not None and not _within(present, question.selection):
            present = None
        return await self._walks.go_on(trail, cursor, present)

    async def _bill_page(self, scope: Scope, question: BillList, resumed: Resumed | None, limit: int) -> BillPage:
        page = await self._bills_asked_for(scope, question, resumed, limit)
        if page:
            return page
        if scope.kind == "franchise":
            raise Refused(SHOP_NOT_IN_SCOPE)
        # The key is bound to a shop that was never loaded. Should it be by now, its bills come with their own horizon.
        horizon = await self._books.horizon()
        page = await self._bills_asked_for(scope, question, resumed, limit)
        return page or BillPage(horizon, 0, b"", b"", None)

    async def _bills_asked_for(
        self, scope: Scope, question: BillList, resumed: Resumed | None, limit: int
    ) -> BillPage | None:
        after, walk = (resumed.after, resumed.walk) if resumed else (None, None)
        match question.selection:
            case ByDay(first, last):
                reached = walk.horizon if walk else 0
                return await self._books.bills_by_day(scope, question.shop_id, first, last, after, limit, reached)
            case ByChange(since):
                until = walk.horizon if walk else None
                return await self._books.bills_by_change(scope, question.shop_id, since, until, after, limit)

    async def _require_provider(self, key: Key, provider_id: str) -> None:
        if not await self._books.covers(key.scope, provider_id):
            raise Refused(PROVIDER_NOT_IN_SCOPE)


def require_lookup(key: Key) -> None:
    """The permission comes before the parameters, so it is asked for on its own."""
    if not key.messaging_lookup:
        raise Refused(LOOKUP_NOT_ENABLED)


def _route(selection: ByDay | ByChange) -> str:
    """Names a list with its parameters: the mode, a blank, the rest."""
    match selection:
        case ByDay(first, last):
            return f"{BY_DAY} {compact(first)}-{compact(last)}"
        case ByChange(since):
            return f"{BY_CHANGE} {since}"


def _within(place: Place, selection: ByDay | ByChange) -> bool:
    match selection:
        case ByDay(first, last):
            return int(compact(first)) <= place.major <= int(compact(last))
        case ByChange(since):
            return place.major >= since


def _disclosure(key: Key, provider_id: str, count: int) -> Disclosure | None:
    return Disclosure(provider_id, count) if key.personal_data and count else None
