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
from counterfoil.backends.sqlite import store
from counterfoil.backends.sqlite.books import SqliteBooks
from counterfoil.backends.sqlite.keys import SqliteKeyLookup
from counterfoil.backends.sqlite.usage import SqliteUsage
from counterfoil.domain.access import Admitted, Key, Scope, TooFast
from counterfoil.domain.change_feed import BEGINNING, FeedPage, FeedPosition, Window
from counterfoil.domain.day_totals import DigestPage, ShopDay
from counterfoil.domain.tokens import FeedTokens
from counterfoil.ingest.pipeline import LoadRules, Pipeline, RejectsFile
from counterfoil.observe import Event, EventLog
from counterfoil.ports import FoundBill, ShopList, Slice, StoredKey, StoreUnavailable
from hostile.callers import pause
from hostile.targets import SECRET, UNLIMITED, RecordSource, ServerThread, free_port, key_id

Headers = list[tuple[str, str]]
# Receives the path, status, headers and body of a response; returns the status, headers and body to send instead.
Spoil = Callable[[str, int, Headers, bytes], tuple[int, Headers, bytes]]

# The modules in which `_replaced` replaces classes: `store` composes the back end, and `reads` uses FeedTokens itself.
_REPLACEABLE: tuple[ModuleType, ...] = (store, reads)
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
        self._json_log = EventLog(descriptor, lambda: 0, lambda _, __: None)
        bootstrap.store(self.settings).prepare()
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
        ledger = bootstrap.store(self.settings).ledger()
        rejects = RejectsFile(self.folder / "rejects.ndjson")
        Pipeline(ledger, bootstrap.pseudonyms(self.settings), rejects, LoadRules()).load(RecordSource(list(records)))
        ledger.close()

    def issue(self, kind: Any, scope_id: str, **terms: Any) -> str:
        grant = {"per_min": UNLIMITED, "per_day": UNLIMITED} | terms
        store = bootstrap.store(self.settings).key_store()
        granted = key_issuing.Grant(scope=Scope(kind, scope_id), **grant)
        text = key_issuing.issue(store, granted, secrets.token_bytes, 0, OPERATOR).text
        store.close()
        return text

    def revoke(self, key: str) -> None:
        store = bootstrap.store(self.settings).key_store()
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


def banner(_: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    return status, [*_without(headers, "server"), ("server", "granian/2.5")], body


def limits_for_strangers(_: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    limits = [("x-ratelimit-limit", "9"), ("x-ratelimit-remaining", "8")] if status == 401 else []
    return status, headers + limits, body


def same_id_for_all(_: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    return status, [*_without(headers, "x-request-id"), ("x-request-id", "same")], body


def wrong_type(_: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    return status, headers, body.replace(b'"ok":true', b'"ok":"yes"')


def traceback_shown(_: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    return status, headers, body.replace(b'"message":"', b'"message":"Traceback (most recent call last): ')


def data_of_another_scope(_: str, status: int, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    return status, headers, body.replace(b"label of sh-0", b"label of sh-2")


SPOILED: dict[str, Spoil] = {
    "a banner": banner,
    "the limits on a 401": limits_for_strangers,
    "one request id for all": same_id_for_all,
    "a field of another type": wrong_type,
    "a traceback in a message": traceback_shown,
    "data of another scope": data_of_another_scope,
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


class FeedOfAnotherFranchise(SqliteBooks):
    """Returns a bill of another franchise at the end of each page of the feed."""

    async def changes(self, scope: Scope, window: Window, wanted: Slice[FeedPosition]) -> FeedPage:
        page = await super().changes(scope, window, wanted)
        foreign = await super().changes(Scope("franchise", "fr-2"), Window(BEGINNING, window.until), Slice(2))
        return replace(page, elements=page.elements + foreign.elements[1:])


class DigestsOfTwoShops(SqliteBooks):
    """Adds the bills of a shop of another franchise to the digests of each shop."""

    totalled: tuple[str, ...] = ("bills", "net")

    async def digests(
        self, scope: Scope, shop_id: str | None, days: tuple[int, int], wanted: Slice[ShopDay]
    ) -> DigestPage:
        page = await super().digests(scope, shop_id, days, wanted)
        foreign = await super().digests(Scope("shop", "sh-2-0"), None, days, Slice(1_000))
        by_day = {digest["day"]: digest for digest in map(json.decode, foreign.elements)}
        own = [json.decode(element) for element in page.elements]
        for digest in own:
            for name in self.totalled:
                number = type(digest[name])
                digest[name] = number(int(digest[name]) + int(by_day.get(digest["day"], {}).get(name, 0)))
        return replace(page, elements=[json.encode(digest) for digest in own])


class TokensOfAnyKey(FeedTokens):
    """Accepts marks and cursors of every key."""

    def _binding(self, owner: Key) -> bytes:
        return super()._binding(replace(owner, key_id="", family=None, scope=Scope("shop", "")))


# --- limits and revocations -----------------------------------------------------------------


class OneTooMany(SqliteUsage):
    """Admits one more request than the minute limit allows."""

    async def admit(self, key: Key) -> Admitted | TooFast:
        return await super().admit(replace(key, per_min=key.per_min + 1))


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


# --- blocked callers and leaked descriptors --------------------------------------------------


class BlocksTheLoop(SqliteBooks):
    """Blocks the event loop, so that all other callers wait while one request is answered."""

    async def shops(self, scope: Scope, reached: int = 0) -> ShopList:
        pause(0.7)
        return await super().shops(scope, reached)
