"""Implements the endpoints: each function authorises the caller, reads from the ports and returns an answer.

Nothing here depends on HTTP. A refusal is an exception with a row of the error table.
An answer holds finished JSON and the horizon up to which its rows are complete.
"""

from collections.abc import Callable

from msgspec import UNSET, Struct, UnsetType, json
from msgspec.structs import astuple

from counterfoil.domain import members
from counterfoil.domain.access import USAGE_DAYS, Admitted, Key, Scope, usage_report
from counterfoil.domain.change_feed import BEGINNING, REMOVALS_KEPT_MS, FeedPosition, Window
from counterfoil.domain.changes import NO_DAY
from counterfoil.domain.day_totals import ShopDay
from counterfoil.domain.members import fill_in
from counterfoil.domain.paging import BY_CHANGE, BY_DAY, BY_SIGN_UP, Listing, Position, StoredCursor, fresh_cursor
from counterfoil.domain.problems import (
    BAD_CURSOR,
    LOOKUP_NOT_ENABLED,
    MARK_EXPIRED,
    NOT_FOUND,
    PROVIDER_NOT_IN_SCOPE,
    SHOP_NOT_IN_SCOPE,
    Refused,
)
from counterfoil.domain.questions import BillList, ByChange, ByDay, ChangeFeed, DigestList, Lookup, MemberList
from counterfoil.domain.request_records import CHANGE_FEED, CHANGES_OF_SHOP, ChangeList
from counterfoil.domain.tokens import DigestCursor, FeedCursor, FeedTokens, Mark, Pseudonyms
from counterfoil.model.calendar import as_number, compact, days_until
from counterfoil.model.resources import MemberReference
from counterfoil.ports import BillPage, Books, Clock, Cursors, Meter, Slice, StoreUnavailable

# Number of fresh IDs to try for one cursor before giving up. The later IDs are long enough to be unique.
MAX_CURSOR_ATTEMPTS = 6
# Greater than any number that `as_number` returns for a day.
LAST_DAY = 99_999_999


class Caller(Struct, frozen=True):
    """The caller of a request: the authenticated key, and the admission of the request."""

    key: Key
    admitted: Admitted

    @property
    def horizon(self) -> int | None:
        """The horizon up to which the data of the response must be complete, or None on a store with one server.

        It is the serverTime of the response, unless a cursor continues a pass with an earlier serverTime.
        """
        return self.admitted.horizon

    @property
    def reached(self) -> int:
        return self.admitted.horizon or 0


class Disclosure(Struct, frozen=True):
    """Which personal data a response contains: the base, and the number of its members in the response."""

    provider_id: str
    members: int


class Answer(Struct, frozen=True, kw_only=True):
    """The answer to a question.

    `data` is finished JSON, or the elements of a list, some of which may already be joined. `seal` changes if and only
    if `data` changes. `mark` is set in the change feed only; it is None until the last page of a pass. `rows` is the
    number of rows, and `shop_id` is the shop that was asked for. `change_list` is set if the answer is a page of a list
    of changes. The pass that the page belongs to returns the changes from `changes_since` to `horizon`.
    """

    data: bytes | list[bytes]
    horizon: int
    seal: bytes
    next_cursor: str | UnsetType | None = UNSET
    mark: str | UnsetType | None = UNSET
    disclosure: Disclosure | None = None
    change_list: ChangeList | None = None
    changes_since: int = 0
    rows: int = 1
    shop_id: str = ""


class Reads:
    """Implements the endpoints by reading from the ports."""

    def __init__(
        self,
        *,
        books: Books,
        cursors: Cursors,
        meter: Meter,
        pseudonyms: Pseudonyms,
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        self._books = books
        self._cursors = cursors
        self._meter = meter
        self._pseudonyms = pseudonyms
        self._feed_tokens = FeedTokens(pseudonyms.feed_key())
        self._clock = clock
        self._new_id = new_id

    async def shops(self, caller: Caller) -> Answer:
        shops = await self._books.shops(caller.key.scope, caller.reached)
        horizon, seal = caller.horizon or shops.horizon, b"".join(shops.bodies)
        return Answer(data=shops.bodies, horizon=horizon, seal=seal, rows=len(shops.bodies))

    async def bills(self, caller: Caller, question: BillList) -> Answer:
        scope = caller.key.scope
        if scope.kind == "shop" and scope.id != question.shop_id:
            raise Refused(SHOP_NOT_IN_SCOPE)
        stored_cursor = None
        if question.cursor is not None:
            stored_cursor = await self._resume_bills(caller, question, question.cursor)
        page = await self._query_bills(caller, question, stored_cursor)
        if page is None:
            page = await self._page_of_unknown_shop(caller, question, stored_cursor)
        if not page.continues:
            raise Refused(BAD_CURSOR)
        horizon = caller.admitted.horizon or page.horizon
        if stored_cursor:
            horizon = stored_cursor.horizon_in(_bill_listing(caller, question))
        next_cursor = None
        if page.last is not None:
            next_cursor = await self._next_cursor(_bill_listing(caller, question), page.last, stored_cursor, horizon)
        change_list, changes_since = None, 0
        if isinstance(question.selection, ByChange):
            change_list, changes_since = (
                (caller.key.lineage, CHANGES_OF_SHOP, question.shop_id),
                question.selection.since,
            )
        return Answer(
            data=[page.bodies] if page.count else [],
            horizon=horizon,
            seal=page.seal,
            next_cursor=next_cursor,
            change_list=change_list,
            changes_since=changes_since,
            rows=page.count,
            shop_id=question.shop_id,
        )

    async def changes(self, caller: Caller, question: ChangeFeed) -> Answer:
        # The horizon is read before the rows, so the rows contain everything up to it.
        horizon = caller.horizon or await self._books.horizon()
        window, after = self._feed_window(caller.key, question, horizon)
        wanted = Slice(question.limit, after, max(window.until, caller.reached))
        page = await self._books.changes(caller.key.scope, window, wanted)
        oldest = max(page.oldest, horizon - REMOVALS_KEPT_MS)
        if BEGINNING < window.since < oldest or window.until < oldest:
            raise Refused(MARK_EXPIRED)
        cursor = FeedCursor(*astuple(window), *astuple(page.last)) if page.last else None
        return Answer(
            data=page.elements,
            horizon=window.until,
            seal=page.seal,
            next_cursor=self._feed_tokens.text_of(caller.key, cursor) if cursor else None,
            mark=self._feed_tokens.text_of(caller.key, Mark(window.until)) if cursor is None else None,
            # A caller with a mark has read everything up to it, so at the end of this pass it has read everything.
            change_list=(caller.key.lineage, CHANGE_FEED, ""),
            rows=len(page.elements),
        )

    async def digests(self, caller: Caller, question: DigestList) -> Answer:
        key, shop_id = caller.key, question.shop_id
        if shop_id is not None and not await self._covers_shop(caller, shop_id):
            raise Refused(SHOP_NOT_IN_SCOPE)
        dated = question.first is not None or question.last is not None
        first = as_number(question.first) if question.first else NO_DAY + dated
        last = as_number(question.last) if question.last else LAST_DAY
        horizon, after = caller.horizon or await self._books.horizon(), None
        query = json.encode((shop_id, first, last)).decode()
        if question.cursor is not None:
            resumed = self._feed_tokens.read(key, question.cursor, DigestCursor)
            if resumed is None or resumed.query != query or resumed.horizon > horizon:
                raise Refused(BAD_CURSOR)
            horizon, after = resumed.horizon, ShopDay(resumed.shop_id, resumed.day)
        wanted = Slice(question.limit, after, max(horizon, caller.reached))
        page = await self._books.digests(key.scope, shop_id, (first, last), wanted)
        cursor = DigestCursor(horizon, query, *astuple(page.last)) if page.last else None
        return Answer(
            data=page.elements,
            horizon=horizon,
            seal=b"".join(page.elements),
            next_cursor=self._feed_tokens.text_of(key, cursor) if cursor else None,
            rows=len(page.elements),
            shop_id=shop_id or "",
        )

    async def bill(self, caller: Caller, bill_id: str) -> Answer:
        found = await self._books.bill(caller.key.scope, bill_id, caller.reached)
        if found is None:
            raise Refused(NOT_FOUND)
        return Answer(data=found.body, horizon=caller.horizon or found.horizon, seal=found.seal)

    async def members(self, caller: Caller, question: MemberList) -> Answer:
        key, provider_id = caller.key, question.provider_id
        await self._require_provider(caller, provider_id)
        listing = Listing(key.lineage, f"members {provider_id}", BY_SIGN_UP)
        stored_cursor = None
        if question.cursor is not None:
            stored_cursor = await self._cursors.find(listing, question.cursor)
            if stored_cursor is None:
                raise Refused(BAD_CURSOR)
        page = await self._books.members(provider_id, _slice(question.limit, stored_cursor, caller))
        if not page.continues:
            raise Refused(BAD_CURSOR)
        horizon = stored_cursor.horizon_in(listing) if stored_cursor else caller.horizon or page.horizon
        data = b"[%b]" % fill_in(page.templates, page.base, self._clock.now_ms(), key.personal_data)
        return Answer(
            data=data,
            horizon=horizon,
            seal=data,
            next_cursor=await self._next_cursor(listing, page.last, stored_cursor, horizon),
            disclosure=_disclosure(key, provider_id, page.count),
            rows=page.count,
        )

    async def member(self, caller: Caller, token: str) -> Answer:
        found = await self._books.member(caller.key.scope, token, caller.reached)
        if found is None:
            raise Refused(NOT_FOUND)
        data = fill_in(found.template, found.base, self._clock.now_ms(), caller.key.personal_data)
        disclosure = _disclosure(caller.key, found.provider_id, 1)
        return Answer(data=data, horizon=caller.horizon or found.horizon, seal=data, disclosure=disclosure)

    async def lookup(self, caller: Caller, question: Lookup) -> Answer:
        await self._require_provider(caller, question.provider_id)
        hashed = self._pseudonyms.messaging_hash(question.messaging_user_id)
        found = await self._books.accounts(question.provider_id, hashed, caller.reached)
        for account in found.accounts:
            if members.is_current_account(found.base, account.channel):
                data = json.encode(MemberReference(member_id=account.token))
                return Answer(data=data, horizon=caller.horizon or found.horizon, seal=data)
        raise Refused(NOT_FOUND)

    async def usage(self, caller: Caller) -> Answer:
        key, admitted = caller.key, caller.admitted
        horizon = caller.horizon or await self._books.horizon()
        counts = await self._meter.counts(key, days_until(admitted.day, USAGE_DAYS))
        data = json.encode(usage_report(key, admitted, counts))
        return Answer(data=data, horizon=horizon, seal=data)

    async def is_shop(self, shop_id: str) -> bool:
        """Return whether this is the ID of a shop in the store, in any scope. No response may depend on it."""
        return await self._books.has_shop(Scope("shop", shop_id), shop_id)

    def _feed_window(self, key: Key, question: ChangeFeed, horizon: int) -> tuple[Window, FeedPosition | None]:
        """Return the window of the pass that this request belongs to, and the position after which the page begins."""
        window, after = Window(BEGINNING, horizon), None
        if question.since is not None:
            mark = self._feed_tokens.read(key, question.since, Mark)
            if mark is None:
                raise Refused(BAD_CURSOR, "The mark in since is not valid for this key; start again without since.")
            window = Window(mark.until, horizon)
        if question.cursor is not None:
            resumed = self._feed_tokens.read(key, question.cursor, FeedCursor)
            if resumed is None or resumed.since != window.since:
                raise Refused(BAD_CURSOR)
            window = Window(resumed.since, resumed.until)
            after = FeedPosition(resumed.shop_id, resumed.part, resumed.stamp, resumed.id)
        if max(window.since, window.until) > horizon:
            # The store has gone back to an earlier state. Stamps above its horizon may be used again for other changes.
            raise Refused(MARK_EXPIRED)
        return window, after

    async def _resume_bills(self, caller: Caller, question: BillList, cursor: str) -> StoredCursor:
        """Return the stored cursor of the request, or refuse the request if there is none."""
        stored_cursor = await self._cursors.find(_bill_listing(caller, question), cursor)
        if stored_cursor is None:
            scope = caller.key.scope
            known = scope.kind == "shop" or await self._books.has_shop(scope, question.shop_id, caller.reached)
            raise Refused(BAD_CURSOR if known else SHOP_NOT_IN_SCOPE)
        return stored_cursor

    async def _page_of_unknown_shop(
        self, caller: Caller, question: BillList, stored_cursor: StoredCursor | None
    ) -> BillPage:
        if caller.key.scope.kind == "franchise":
            raise Refused(SHOP_NOT_IN_SCOPE)
        # The key is bound to a shop that was never loaded. Read the horizon, then look for the shop again: if it has
        # been loaded in the meantime, its bills come with their own horizon.
        horizon = await self._books.horizon()
        page = await self._query_bills(caller, question, stored_cursor)
        return page or BillPage(horizon, 0, b"", b"", None)

    async def _query_bills(
        self, caller: Caller, question: BillList, stored_cursor: StoredCursor | None
    ) -> BillPage | None:
        scope, shop_id = caller.key.scope, question.shop_id
        wanted = _slice(question.limit, stored_cursor, caller)
        match question.selection:
            case ByDay(first, last):
                return await self._books.bills_by_day(scope, shop_id, first, last, wanted)
            case ByChange(since):
                # The upper bound ensures that the pass ends, however many bills change in the meantime.
                until = stored_cursor.latest if stored_cursor else caller.horizon
                return await self._books.bills_by_change(scope, shop_id, since, until, wanted)

    async def _next_cursor(
        self, listing: Listing, last: Position | None, stored_cursor: StoredCursor | None, horizon: int
    ) -> str | None:
        """Return the cursor that continues after a page, or None if the page was not full."""
        if last is None:
            return None
        next_position = stored_cursor.at(last) if stored_cursor else StoredCursor(last, horizon, horizon)
        cursor = await self._cursors.hand_out(listing, next_position, None)
        for attempt in range(MAX_CURSOR_ATTEMPTS):
            if cursor is not None:
                return cursor
            fresh = fresh_cursor(last.id, self._new_id(), longer=attempt >= MAX_CURSOR_ATTEMPTS // 2)
            cursor = await self._cursors.hand_out(listing, next_position, fresh)
        raise StoreUnavailable(f"found no unused cursor ID in {MAX_CURSOR_ATTEMPTS} attempts")

    async def _covers_shop(self, caller: Caller, shop_id: str) -> bool:
        scope = caller.key.scope
        if scope.kind == "shop":
            return scope.id == shop_id
        return await self._books.has_shop(scope, shop_id, caller.reached)

    async def _require_provider(self, caller: Caller, provider_id: str) -> None:
        if not await self._books.covers(caller.key.scope, provider_id, caller.reached):
            raise Refused(PROVIDER_NOT_IN_SCOPE)


def _slice(limit: int, stored_cursor: StoredCursor | None, caller: Caller) -> Slice[Position]:
    if stored_cursor is None:
        return Slice(limit, None, caller.reached)
    return Slice(limit, stored_cursor.position, max(stored_cursor.latest, caller.reached))


def require_lookup(key: Key) -> None:
    """Refuse a key without the lookup permission. The permission is checked before the parameters are parsed."""
    if not key.messaging_lookup:
        raise Refused(LOOKUP_NOT_ENABLED)


def _bill_listing(caller: Caller, question: BillList) -> Listing:
    return Listing(caller.key.lineage, f"bills {question.shop_id}", _query(question.selection))


def _query(selection: ByDay | ByChange) -> str:
    """Return the mode and the parameters of a list as a string."""
    match selection:
        case ByDay(first, last):
            return f"{BY_DAY} {compact(first)}-{compact(last)}"
        case ByChange(since):
            return f"{BY_CHANGE} {since}"


def _disclosure(key: Key, provider_id: str, count: int) -> Disclosure | None:
    return Disclosure(provider_id, count) if key.personal_data and count else None
