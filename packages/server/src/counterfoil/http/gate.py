"""The gate in front of the endpoints: refuses requests that are malformed or from web pages; checks keys and limits."""

import asyncio
from collections import deque
from hashlib import sha256
from typing import Protocol

from counterfoil.domain import credentials, problems
from counterfoil.domain.access import WINDOW_SEC, TooFast
from counterfoil.domain.problems import Refused
from counterfoil.ports import Clock, KeyLookup, Meter, StoredKey, StoreUnavailable
from counterfoil.reads import Caller

# Maximum number of requests that a worker processes at once. Other requests wait up to MAX_WAIT_SEC for a free slot and
# are then refused without being counted, so that a slow store does not build up a queue that it can never clear.
MAX_CONCURRENT_REQUESTS = 32
MAX_WAIT_SEC = 2.0

# A worker remembers the hashes of at most MAX_VERIFIED_HEADERS valid Authorization headers. It does not hash headers
# that are longer than MAX_HASHED_LENGTH characters.
MAX_VERIFIED_HEADERS = 4_096
MAX_HASHED_LENGTH = 256

# The version string that the HTTP server passes for HTTP/1.0.
HTTP_1_0 = "1"


class RequestHeaders(Protocol):
    """Request headers. `get` returns only values that are valid text; `in` also finds headers with invalid values."""

    def __contains__(self, key: str) -> bool: ...

    def get(self, key: str, default: str | None = None) -> str | None: ...

    def get_all(self, key: str) -> list[str]: ...


def names_one_host(headers: RequestHeaders, http_version: str) -> bool:
    """Return whether there is one readable Host header (a proxy might use the other of two), or none in HTTP/1.0."""
    return len(headers.get_all("host")) == 1 or (http_version == HTTP_1_0 and "host" not in headers)


def sole(values: list[str]) -> str | None:
    """Return the value of a header. One with several values is ambiguous, so it is treated as missing."""
    return values[0] if len(values) == 1 else None


def refuse_browsers(headers: RequestHeaders) -> None:
    """Refuse cross-origin requests from web pages, CORS preflights, and all requests with an `Origin` header.

    A person may still follow a link to the service, and pages of the same origin may send GET requests.
    """
    if "origin" in headers or "access-control-request-method" in headers:
        raise Refused(problems.CROSS_ORIGIN_REFUSED)
    if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not _is_navigation(headers):
        raise Refused(problems.CROSS_ORIGIN_REFUSED)


def _is_navigation(headers: RequestHeaders) -> bool:
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest", "document") == "document"


class Gate:
    """Admits a request and identifies its caller, or refuses it."""

    def __init__(self, keys: KeyLookup, meter: Meter, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock
        self._meter = meter
        self._free_slots = MAX_CONCURRENT_REQUESTS
        self._waiting: deque[asyncio.Future[None]] = deque()
        # Verified keys, by the SHA-256 hash of the Authorization header.
        self._verified: dict[bytes, StoredKey] = {}

    def try_enter(self) -> bool:
        """Take a slot and return True, or return False if no slot is free. `leave` releases the slot."""
        if not self._free_slots:
            return False
        self._free_slots -= 1
        return True

    async def wait_for_slot(self) -> None:
        """Wait until another request has finished, and take over its slot. Refuse this request after MAX_WAIT_SEC."""
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(slot)
        try:
            await asyncio.wait([slot], timeout=MAX_WAIT_SEC)
        except asyncio.CancelledError:
            if not slot.cancel():
                self.leave()
            raise
        if slot.cancel():
            raise Refused(problems.AUTH_UNAVAILABLE) from StoreUnavailable(
                f"{MAX_CONCURRENT_REQUESTS} requests are in progress; this one got no slot within {MAX_WAIT_SEC:.0f} s"
            )

    def leave(self) -> None:
        """Pass the slot on to the request that has waited longest, or release it if no request is waiting."""
        while self._waiting:
            slot = self._waiting.popleft()
            if not slot.done():
                slot.set_result(None)
                return
        self._free_slots += 1

    async def admit(self, authorization: str | None) -> Caller:
        """Check the key, count the request, and return the caller, whose quota `require_quota` checks afterwards."""
        try:
            stored = await self._stored_key(authorization)
            if stored is None:
                raise Refused(problems.INVALID_KEY)
            if stored.key.is_revoked(self._clock.now_ms()):
                raise Refused(problems.KEY_REVOKED, key_id=stored.key.key_id)
            verdict = await self._meter.admit(stored.key)
        except StoreUnavailable as error:
            raise Refused(problems.AUTH_UNAVAILABLE) from error
        if isinstance(verdict, TooFast):
            raise problems.TooManyRequests(stored.key.key_id, verdict.retry_after_sec, stored.key.per_min, WINDOW_SEC)
        return Caller(stored.key, verdict)

    async def _stored_key(self, authorization: str | None) -> StoredKey | None:
        """Return the key of an Authorization header, or None if the header is not valid.

        The hash of a valid header is remembered, so that later requests need not parse and check the header again.
        Headers are looked up by their hash, so the time that a lookup takes reveals nothing about a secret. A changed
        key is another object, so its header is checked again.
        """
        header_hash = None
        if authorization is not None and len(authorization) <= MAX_HASHED_LENGTH:
            header_hash = sha256(authorization.encode(errors="surrogatepass")).digest()
            known = self._verified.get(header_hash)
            if known is not None and await self._keys.find(known.key.key_id) is known:
                return known
        stored = await self._verified_key(credentials.parse_authorization(authorization))
        if stored is not None and header_hash is not None:
            if len(self._verified) >= MAX_VERIFIED_HEADERS:
                self._verified.clear()
            self._verified[header_hash] = stored
        return stored

    async def _verified_key(self, credential: credentials.Credential | None) -> StoredKey | None:
        """Return the key of a valid credential. An unknown ID takes as long as a wrong secret, to reveal nothing."""
        if credential is None:
            # There is no key to look up. But if keys cannot be read, `find` raises, and this request is refused with
            # the same error as all other requests.
            await self._keys.find("")
            return None
        stored = await self._keys.find(credential.key_id)
        if not credentials.matches(credential.secret, stored.secret_digest if stored else None):
            stored = await self._keys.find_again(credential.key_id)
            if not credentials.matches(credential.secret, stored.secret_digest if stored else None):
                return None
        return stored


def require_quota(caller: Caller) -> None:
    if caller.admitted.count > caller.key.per_day:
        raise Refused(problems.QUOTA_EXCEEDED)
