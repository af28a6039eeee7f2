"""The client: it blocks, and threads may share it.

with Client("http://127.0.0.1:8000", key) as api:
    for shop in api.shops():
        for bill in api.bills(shop["shopId"], updated_since=mark):
            ...
"""

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Self, TypeVar, Unpack

from counterfoil.client import calls, connection
from counterfoil.client.calls import DigestSelection, FeedPaging, Paging, Selection
from counterfoil.client.connection import TIMEOUT_SEC, Call, Environment, HttpResponse
from counterfoil.client.errors import Unreachable
from counterfoil.client.models import Bill, Change, DayDigest, Member, Page, Shop, Usage

Row = TypeVar("Row")


SYSTEM_ENVIRONMENT = Environment(time.monotonic, time.time, random.random)


class Client:
    """The client. Threads may share it. If `per_min` is None, the client asks the service for the rate limit.

    The client asks only after `unpaced` requests, so that a short run does not need an extra request.
    If `base_url` has no path, `/ext/v1` is added.

    Every method waits for the rate limit, and sends a request again, up to eight times, while the service fails or
    cannot be reached. The logger `counterfoil.client` gets a record of each wait. What cannot be mended raises
    `Refusal`, `QuotaSpent` or `Unreachable`.
    `on_wait` is called before the client waits, with the reason and the seconds, and after the wait with "" and 0.
    """

    def __init__(
        self,
        base_url: str,
        key: str,
        *,
        per_min: int | None = None,
        unpaced: int = 1,
        timeout_sec: float = TIMEOUT_SEC,
        connect: Callable[[str, str, float], connection.Connection] = connection.Connection,
        sleep: Callable[[float], object] | None = None,
        environment: Environment = SYSTEM_ENVIRONMENT,
    ) -> None:
        self.base_url = connection.checked_url(base_url)
        self._connection = connect(self.base_url, key, timeout_sec)
        self._pace = connection.Pace(per_min)
        self._limit_lock = threading.Lock()
        self._closed = threading.Event()
        self._sleep = sleep or self._closed.wait
        self._environment = environment
        self._unpaced = unpaced
        self.requests = 0
        self.on_wait: Callable[[str, float], None] = lambda _reason, _seconds: None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    def close(self) -> None:
        """Close the connections, and wake other threads that are waiting in this client."""
        self._closed.set()
        self._connection.close()

    def shops(self) -> list[Shop]:
        """Return all shops that the key may read."""
        return list(self.shop_page().data)

    def shop_page(self) -> Page[Shop]:
        """Return the shops. The next run can pass the page's `server_time` as `updated_since`."""
        return calls.page_parser(calls.to_shop)(self.send(calls.SHOPS))

    def bills(self, shop_id: str, **selection: Unpack[Selection]) -> Iterator[Bill]:
        """Yield the bills of a shop, page by page. Pass either `first` and `last` (dates), or `updated_since`."""
        for page in self.bill_pages(shop_id, **selection):
            yield from page.data

    def bill_pages(self, shop_id: str, **selection: Unpack[Selection]) -> Iterator[Page[Bill]]:
        """Yield the pages of a list of bills. Pass either `first` and `last` (dates), or `updated_since`.

        A range of more than 31 days is read in windows of at most 31 days, and every window ends with a page without
        a `next_cursor`.
        """
        for call in calls.bill_windows(shop_id, **selection):
            yield from self.pages(call, calls.page_parser(calls.to_bill))

    def bill(self, bill_id: str) -> Bill:
        """Return a bill. Raise `Refusal` with the code `not_found` if the key may not read it."""
        return calls.parse_object(self.send(calls.bill(bill_id)), calls.to_bill)

    def change_pages(self, **paging: Unpack[FeedPaging]) -> Iterator[Page[Change]]:
        """Yield the pages of a pass through the change feed. Only the last page has a `mark`."""
        return self.pages(calls.changes(**paging), calls.page_parser(calls.to_change))

    def digest_pages(self, **selection: Unpack[DigestSelection]) -> Iterator[Page[DayDigest]]:
        """Yield the pages of the digests: what a copy must add up to, by shop and day."""
        return self.pages(calls.digests(**selection), calls.page_parser(calls.to_digest))

    def members(self, provider_id: str, **paging: Unpack[Paging]) -> Iterator[Member]:
        """Yield all members of a membership base, page by page."""
        for page in self.member_pages(provider_id, **paging):
            yield from page.data

    def member_pages(self, provider_id: str, **paging: Unpack[Paging]) -> Iterator[Page[Member]]:
        """Yield the pages of a membership base, oldest sign-up first."""
        return self.pages(calls.members(provider_id, **paging), calls.page_parser(calls.to_member))

    def member(self, token: str) -> Member:
        """Return the member with this token. Raise `Refusal` with the code `not_found` if the key may not read it."""
        return calls.parse_object(self.send(calls.member(token)), calls.to_member)

    def lookup(self, provider_id: str, messaging_user_id: str) -> str:
        """Return the token of the member with this messaging user ID."""
        return calls.parse_object(self.send(calls.lookup(provider_id, messaging_user_id)), calls.to_token)

    def usage(self) -> Usage:
        """Return the key's limits and usage, and set the client's own rate limit to that of the key."""
        usage = calls.parse_object(self._run(calls.USAGE), calls.to_usage)
        self._pace.set_limit(usage["rate"]["perMin"])
        return usage

    def send(self, call: Call) -> HttpResponse:
        """Send a call and return the raw response."""
        if not self._pace.has_limit and self.requests >= self._unpaced:
            with self._limit_lock:
                if not self._pace.has_limit:
                    self.usage()
        return self._run(call)

    def pages(self, call: Call, parse: Callable[[HttpResponse], Page[Row]]) -> Iterator[Page[Row]]:
        """Yield the pages of a list, from that of `call` on."""
        following: Call | None = call
        while following is not None:
            page = parse(self.send(following))
            following = None if page.next_cursor is None else calls.next_page(following, page.next_cursor)
            yield page

    def _run(self, call: Call) -> HttpResponse:
        return connection.response_to(call, self._pace, self._environment, self._get, self._wait)

    def _get(self, call: Call) -> connection.Outcome:
        self.requests += 1
        outcome = self._connection.get(call)
        self._require_open()
        return outcome

    def _wait(self, seconds: float, reason: str) -> None:
        self.on_wait(reason, seconds)
        self._sleep(seconds)
        self.on_wait("", 0.0)
        self._require_open()

    def _require_open(self) -> None:
        if self.is_closed:
            raise Unreachable("the client was closed during the call")
