"""Deliberate defects, at least one for each checker. None of them is in the shipped code.

A planted service is the real service, run in this process, with one part replaced by
a defective subclass, or with its responses changed before they are sent.
"""

import contextlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import json
from msgspec.structs import replace

from actors import OPERATOR
from counterfoil import bootstrap, key_issuing, reads, settings
from counterfoil.backends.sqlite import books, keys, usage
from counterfoil.backends.sqlite.books import SqliteBooks
from counterfoil.backends.sqlite.keys import SqliteKeyLookup
from counterfoil.backends.sqlite.usage import SqliteUsage
from counterfoil.domain.access import Key, Scope
from counterfoil.domain.allowance import Admitted, TooFast
from counterfoil.domain.change_feed import BEGINNING, FeedPage, FeedPosition, Window
from counterfoil.domain.day_totals import DigestPage, ShopDay
from counterfoil.domain.feed_tokens import FeedTokens
from counterfoil.ingest.pipeline import Pipeline, RejectsFile
from counterfoil.observe.events import Event
from counterfoil.observe.logs import JsonLog
from counterfoil.ports import BillPage, FoundBill, ShopList, StoredKey, StoreUnavailable
from hostile.callers import pause
from hostile.targets import SECRET, UNLIMITED, RecordSource, ServerThread, free_port, key_id

Headers = list[tuple[str, str]]
# Receives the path, status, headers and body of a response; returns the status, headers and body to send instead.
Spoil = Callable[[str, int, Headers, bytes], tuple[int, Headers, bytes]]

# The modules in which `_replaced` replaces classes. `bootstrap` imports the classes of the back end from their modules
# only when it composes a service, and `reads` uses FeedTokens itself.
_REPLACEABLE: tuple[ModuleType, ...] = (books, usage, keys, reads)
KEPT_SEC = 10.0
CHANGES, DIGESTS = "/ext/v1/changes", "/ext/v1/digests"


class _SpoiledProtocol:
    def __init__(self, protocol: Any, path: str, spoil: Spoil) -> None:
        self._protocol = protocol
        self._path = path
        self._spoil = spoil

    def response_bytes(self, status: int, headers: Headers, body: bytes) -> None:
        self._protocol.response_bytes(*self._spoil(self._path, status, headers, body))


class SpoiledApp:
    """The real application, with its responses changed before they are sent."""

    def __init__(self, app: Any, spoil: Spoil) -> None:
        self._app = app
        self._spoil = spoil

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        await self._app.__rsgi__(scope, _SpoiledProtocol(protocol, scope.path, self._spoil))


class PlantedService:
    """A service with a planted defect. `parts` replaces classes of the SQLite back end or of `reads` by name."""

    def __init__(self, folder: Path, *, spoil: Spoil | None = None, **parts: type) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.store = folder / "store"
        self.settings = settings.load({"store": str(self.store), "secret": SECRET}, environment={})
        self.nodes: list[Any] = []
        self.deployments: list[Any] = []
        self._log = folder / "log"
        descriptor = os.open(self._log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self._json_log = JsonLog(descriptor, lambda: 0, lambda _, __: None)
        bootstrap.prepare(self.settings)
        with _replaced(parts):
            service = bootstrap.service(self.settings, self._observe)
        app = SpoiledApp(service.app, spoil) if spoil else service.app
        self._server = ServerThread(bootstrap.Service(app, service.close))  # type: ignore[arg-type]

    def _observe(self, event: Event) -> None:
        self._json_log(event)

    def start(self) -> "PlantedService":
        return self

    def stop(self) -> None:
        self._server.stop()

    @property
    def office(self) -> "PlantedService":
        return self

    @property
    def ports(self) -> list[int]:
        return [self._server.port]

    def load(self, *records: Any) -> None:
        ledger = bootstrap.ledger(self.settings)
        rejects = RejectsFile(self.folder / "rejects.ndjson")
        Pipeline(ledger, bootstrap.pseudonyms(self.settings), rejects, 500).load(RecordSource(list(records)))
        ledger.close()

    def issue(self, kind: Any, scope_id: str, **terms: Any) -> str:
        grant = {"per_min": UNLIMITED, "per_day": UNLIMITED} | terms
        store = bootstrap.key_store(self.settings)
        granted = key_issuing.Grant(scope=Scope(kind, scope_id), **grant)
        text = key_issuing.issue(store, granted, secrets.token_bytes, 0, OPERATOR).text
        store.close()
        return text

    def revoke(self, key: str) -> None:
        store = bootstrap.key_store(self.settings)
        key_issuing.revoke(store, key_id(key), 1, OPERATOR)
        store.close()

    def processes(self) -> dict[str, int]:
        return {"worker": os.getpid()}

    def stored(self) -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in self.store.iterdir() if file.is_file()}

    def logs(self) -> bytes:
        self._json_log.flush()
        return self._log.read_bytes()

    def note(self, text: str) -> None:
        """Log a line that the shipped service would not log."""
        with self._log.open("a", encoding="utf-8") as log:
            log.write(text + "\n")


@contextmanager
def _replaced(parts: dict[str, type]) -> Iterator[None]:
    """Replace classes in the modules in which the service looks them up, for the duration of the block."""
    users = {name: next(module for module in _REPLACEABLE if hasattr(module, name)) for name in parts}
    before = {name: getattr(user, name) for name, user in users.items()}
    for name, part in parts.items():
        setattr(users[name], name, part)
    try:
        yield
    finally:
        for name, part in before.items():
            setattr(users[name], name, part)


# --- answers that are not as documented ---------------------------------------------------


def _without(headers: Headers, name: str) -> Headers:
    return [(known, value) for known, value in headers if known != name]


def extra_header(_: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    return status, [*headers, ("x-powered-by", "python")], body


def banner(_: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    return status, [*_without(headers, "server"), ("server", "granian/2.5")], body


def cacheable(_: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    return status, [*_without(headers, "cache-control"), ("cache-control", "public, max-age=60")], body


def for_web_pages(_: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    return status, [*headers, ("access-control-allow-origin", "*")], body


def undocumented_status(_: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    return 410 if status == 404 else status, headers, body


def limits_for_strangers(_: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    limits = [("x-ratelimit-limit", "9"), ("x-ratelimit-remaining", "8")] if status == 401 else []
    return status, headers + limits, body


def limits_forgotten(_: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    return status, _without(_without(headers, "x-ratelimit-limit"), "x-ratelimit-remaining"), body


def retry_forgotten(_: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    return status, _without(headers, "retry-after"), body


def same_id_for_all(_: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    return status, [*_without(headers, "x-request-id"), ("x-request-id", "same")], body


def wrong_type(_: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    return status, headers, body.replace(b'"ok":true', b'"ok":"yes"')


def traceback_shown(_: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    return status, headers, body.replace(b'"message":"', b'"message":"Traceback (most recent call last): ')


def error_500(path: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    return (
        (500, headers, b'{"ok":false,"error":"internal","message":"x"}') if status == 200 else (status, headers, body)
    )


def data_of_another_scope(_: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    return status, headers, body.replace(b"label of sh-0", b"label of sh-2")


def wrong_time(_: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    return status, headers, body.replace(b'"serverTime":"2', b'"serverTime":"x')


def more_remaining(_: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    name = "x-ratelimit-remaining"
    return status, [(known, "9999999999" if known == name else value) for known, value in headers], body


def digest_of_another_scope(path: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    return status, headers, body.replace(b'"shopId":"sh-0', b'"shopId":"sh-2') if path == DIGESTS else body


def element_of_another_type(path: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    return status, headers, body.replace(b'"full":true', b'"full":"yes"') if path == CHANGES else body


def two_marks(path: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    return status, headers, body.replace(b',"mark":"', b',"mark":["x"],"also":"') if path == CHANGES else body


def cacheable_digests(path: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    return cacheable(path, status, headers, body) if path == DIGESTS else (status, headers, body)


def count_as_text(path: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    return status, headers, body.replace(b'"count":', b'"count":"x",":":')


def telling(path: str, canary: str) -> Spoil:
    """Return a function that adds a canary to the rows of one list."""

    def told(asked: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
        added = b'"shopId":"%b ' % canary.encode()
        return status, headers, body.replace(b'"shopId":"', added) if asked == path else body

    return told


SPOILED: dict[str, Spoil] = {
    "an undocumented header": extra_header,
    "a banner": banner,
    "an answer that may be cached": cacheable,
    "a header for web pages": for_web_pages,
    "an undocumented status": undocumented_status,
    "the limits on a 401": limits_for_strangers,
    "no limits on a 200": limits_forgotten,
    "rate_limited without Retry-After": retry_forgotten,
    "one request id for all": same_id_for_all,
    "a field of another type": wrong_type,
    "a traceback in a message": traceback_shown,
    "a 500 without trouble": error_500,
    "data of another scope": data_of_another_scope,
    "a serverTime that is not a time": wrong_time,
    "more requests remaining than the limit": more_remaining,
    "a count that is not a number": count_as_text,
    "a digest of another scope": digest_of_another_scope,
    "an element of the feed with a field of another type": element_of_another_type,
    "a mark that is not a string": two_marks,
    "digests that may be cached": cacheable_digests,
}


class CarelessProxy:
    """A proxy that removes Content-Length and Transfer-Encoding, so that hidden requests reach the service."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.port = free_port()
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                threading.Thread(target=self._relay, args=(caller,), daemon=True).start()

    def _relay(self, caller: socket.socket) -> None:
        with contextlib.suppress(OSError), caller, socket.create_connection(("127.0.0.1", self._target)) as service:
            lines = caller.recv(1_000_000).split(b"\r\n")
            framing = (b"content-length", b"transfer-encoding")
            service.sendall(b"\r\n".join(line for line in lines if not line.lower().startswith(framing)))
            service.settimeout(0.5)
            while piece := service.recv(65_536):
                caller.sendall(piece)

    def close(self) -> None:
        self._listener.close()


# --- a scope that is wider than it should be -----------------------------------------------


class LeaksOneBill(SqliteBooks):
    """Shows one bill of another franchise."""

    async def bill(self, scope: Scope, bill_id: str, reached: int = 0) -> FoundBill | None:
        found = await super().bill(scope, bill_id, reached)
        if found is None and bill_id == "sh-2-0-b2":
            return await super().bill(Scope("shop", "sh-2-0"), bill_id, reached)
        return found


class ListsForeignShops(SqliteBooks):
    """Returns another franchise's shops instead of an empty list."""

    async def shops(self, scope: Scope, reached: int = 0) -> ShopList:
        found = await super().shops(scope, reached)
        return found if found.bodies else await super().shops(Scope("franchise", "fr-2"), reached)


class CoversEveryBase(SqliteBooks):
    async def covers(self, scope: Scope, provider_id: str, reached: int = 0) -> bool:
        return bool(provider_id) or await super().covers(scope, provider_id, reached)


class CoversEveryShop(SqliteBooks):
    """Returns an empty list of digests for the shops of other franchises, instead of refusing the request."""

    async def has_shop(self, scope: Scope, shop_id: str, reached: int = 0) -> bool:
        return bool(shop_id) or await super().has_shop(scope, shop_id, reached)


class FeedOfAnotherFranchise(SqliteBooks):
    """Returns a bill of another franchise at the end of each page of the feed."""

    async def changes(
        self, scope: Scope, window: Window, after: FeedPosition | None, limit: int, reached: int = 0
    ) -> FeedPage:
        page = await super().changes(scope, window, after, limit, reached)
        foreign = await super().changes(Scope("franchise", "fr-2"), Window(BEGINNING, window.until), None, 2, reached)
        return replace(page, elements=page.elements + foreign.elements[1:])


class FeedWithoutRemovals(SqliteBooks):
    """Leaves the removals of bills out of the feed."""

    async def changes(
        self, scope: Scope, window: Window, after: FeedPosition | None, limit: int, reached: int = 0
    ) -> FeedPage:
        page = await super().changes(scope, window, after, limit, reached)
        return replace(page, elements=[one for one in page.elements if b'"billRemoved"' not in one])


class FeedOfEverySince(SqliteBooks):
    """Returns everything in every pass, whatever the mark."""

    async def changes(
        self, scope: Scope, window: Window, after: FeedPosition | None, limit: int, reached: int = 0
    ) -> FeedPage:
        return await super().changes(scope, Window(BEGINNING, window.until), after, limit, reached)


class DigestsOfTwoShops(SqliteBooks):
    """Adds the bills of a shop of another franchise to the digests of each shop."""

    totalled: tuple[str, ...] = ("bills", "net")

    async def digests(
        self,
        scope: Scope,
        shop_id: str | None,
        days: tuple[int, int],
        after: ShopDay | None,
        limit: int,
        reached: int = 0,
    ) -> DigestPage:
        page = await super().digests(scope, shop_id, days, after, limit, reached)
        foreign = await super().digests(Scope("shop", "sh-2-0"), None, days, None, 1_000, reached)
        by_day = {digest["day"]: digest for digest in map(json.decode, foreign.elements)}
        own = [json.decode(element) for element in page.elements]
        for digest in own:
            for name in self.totalled:
                number = type(digest[name])
                digest[name] = number(int(digest[name]) + int(by_day.get(digest["day"], {}).get(name, 0)))
        return replace(page, elements=[json.encode(digest) for digest in own])


class HashOfTwoShops(DigestsOfTwoShops):
    totalled = ("hash",)


class TokensOfAnyLineage(FeedTokens):
    """Accepts marks and cursors of every key that has the same scope."""

    def _signature(self, owner: Key, payload: bytes) -> bytes:
        return super()._signature(replace(owner, key_id="", family=None), payload)


class TokensOfAnyKey(FeedTokens):
    """Accepts marks and cursors of every key."""

    def _signature(self, owner: Key, payload: bytes) -> bytes:
        return super()._signature(replace(owner, key_id="", family=None, scope=Scope("shop", "")), payload)


class CursorsOfAnyQuery(FeedTokens):
    """Accepts a cursor of the digests in a list with other parameters."""

    def read_digest_cursor(self, owner: Key, query: str, text: str) -> tuple[int, ShopDay] | None:
        found = self._verified(owner, text)
        return super().read_digest_cursor(owner, getattr(found, "query", query), text)


# --- limits and revocations -----------------------------------------------------------------


class OneTooMany(SqliteUsage):
    """Admits one more request than the minute limit allows."""

    async def admit(self, key: Key) -> Admitted | TooFast:
        return await super().admit(replace(key, per_min=key.per_min + 1))


class OneTooFew(SqliteUsage):
    async def admit(self, key: Key) -> Admitted | TooFast:
        return await super().admit(replace(key, per_min=key.per_min - 1))


class ForgetsOne(SqliteUsage):
    """Reports the same count for the fifth request as for the fourth."""

    async def admit(self, key: Key) -> Admitted | TooFast:
        verdict = await super().admit(key)
        if isinstance(verdict, Admitted) and verdict.count == 5:
            return replace(verdict, count=verdict.count - 1)
        return verdict


class KeepsRevokedKeys(SqliteKeyLookup):
    """Still accepts a key for ten seconds after it was revoked."""

    _first_seen: dict[str, float]

    async def find(self, key_id: str) -> StoredKey | None:
        return self._late(await super().find(key_id))

    async def find_again(self, key_id: str) -> StoredKey | None:
        return self._late(await super().find_again(key_id))

    def _late(self, kept: StoredKey | None) -> StoredKey | None:
        if kept is None or kept.key.revoked_at is None:
            return kept
        self._first_seen = getattr(self, "_first_seen", {})
        since = self._first_seen.setdefault(kept.key.key_id, time.monotonic())
        if time.monotonic() - since > KEPT_SEC:
            return kept
        return replace(kept, key=replace(kept.key, revoked_at=None))


# --- outages that are hidden -------------------------------------------------------------------


class UnknownIfUnreadable(SqliteKeyLookup):
    """Reports a key as nonexistent when the keys cannot be read."""

    async def find(self, key_id: str) -> StoredKey | None:
        try:
            return await super().find(key_id)
        except StoreUnavailable:
            return None

    find_again = find


def empty_if_missing(file: Path) -> type[SqliteBooks]:
    """Return a subclass of `SqliteBooks` whose lists by day are empty while a file is missing."""

    class EmptyIfMissing(SqliteBooks):
        async def bills_by_day(self, scope: Scope, shop_id: str, *rest: Any) -> BillPage | None:
            page = await super().bills_by_day(scope, shop_id, *rest)
            return page if page is None or os.access(file, os.F_OK) else BillPage(page.horizon, 0, b"", b"", None)

    return EmptyIfMissing


# --- blocked callers and leaked descriptors --------------------------------------------------


class BlocksTheLoop(SqliteBooks):
    """Blocks the event loop, so that all other callers wait while one request is answered."""

    async def shops(self, scope: Scope, reached: int = 0) -> ShopList:
        pause(0.7)
        return await super().shops(scope, reached)


class LeavesFilesOpen(SqliteBooks):
    _left: list[int]

    async def shops(self, scope: Scope, reached: int = 0) -> ShopList:
        self._left = [*getattr(self, "_left", []), os.open(os.devnull, os.O_RDONLY)]
        return await super().shops(scope, reached)

    def close(self) -> None:
        for descriptor in self._left:
            os.close(descriptor)
        super().close()
