"""The gate in front of the endpoints: refuses browsers, then checks the key, the minute window and the day quota."""

import asyncio
from typing import Protocol

from counterfoil.domain import credentials
from counterfoil.domain.allowance import WINDOW_SEC, TooFast, exceeded
from counterfoil.domain.problems import (
    AUTH_UNAVAILABLE,
    CROSS_ORIGIN_REFUSED,
    INVALID_KEY,
    KEY_REVOKED,
    QUOTA_EXCEEDED,
    Refused,
    TooManyRequests,
)
from counterfoil.ports import KeyLookup, Meter, StoredKey, StoreUnavailable
from counterfoil.reads import Caller

# A worker processes at most SEATS requests at once. Others wait up to SEAT_SEC for a seat and are then refused without
# being counted, so that a slow store does not build up a queue that it can never serve.
SEATS = 32
SEAT_SEC = 2.0

# Checked when no well-formed key was presented, so that the same work is done.
_NO_CREDENTIAL = credentials.Credential("", "")


class RequestHeaders(Protocol):
    """Request headers. `get` returns only valid text; `in` also finds headers that are not."""

    def __contains__(self, key: str) -> bool: ...

    def get(self, key: str, default: str | None = None) -> str | None: ...


def refuse_browsers(headers: RequestHeaders) -> None:
    """Refuse requests made by web pages, but not those of a person who follows a link to the service."""
    if "origin" in headers or "access-control-request-method" in headers:
        raise Refused(CROSS_ORIGIN_REFUSED)
    if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not _follows_a_link(headers):
        raise Refused(CROSS_ORIGIN_REFUSED)


def _follows_a_link(headers: RequestHeaders) -> bool:
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest", "document") == "document"


class Gate:
    """Admits a request and identifies its caller, or refuses it."""

    def __init__(self, keys: KeyLookup, meter: Meter) -> None:
        self._keys = keys
        self._meter = meter
        self._seats = asyncio.Semaphore(SEATS)

    async def enter(self) -> None:
        """Take a seat, waiting if none is free; `leave` gives it back."""
        if not self._seats.locked():
            await self._seats.acquire()
            return
        try:
            async with asyncio.timeout(SEAT_SEC):
                await self._seats.acquire()
        except TimeoutError:
            raise Refused(AUTH_UNAVAILABLE) from StoreUnavailable(f"{SEATS} requests are under way and none ended")

    def leave(self) -> None:
        self._seats.release()

    async def admit(self, authorization: str | None) -> Caller:
        """Check the key and count the request. The quota is checked apart: its refusal has the allowance headers."""
        credential = credentials.presented(authorization)
        try:
            kept = await self._genuine(credential or _NO_CREDENTIAL)
            if kept is None:
                raise Refused(INVALID_KEY)
            if kept.key.revoked_at is not None:
                raise Refused(KEY_REVOKED, key_id=kept.key.key_id)
            verdict = await self._meter.admit(kept.key)
        except StoreUnavailable as error:
            raise Refused(AUTH_UNAVAILABLE) from error
        if isinstance(verdict, TooFast):
            raise TooManyRequests(kept.key.key_id, verdict.retry_after_sec, kept.key.per_min, WINDOW_SEC)
        return Caller(kept.key, verdict)

    async def _genuine(self, credential: credentials.Credential) -> StoredKey | None:
        """Return the key of this credential, or None. An unknown id and a wrong secret take the same steps."""
        kept = await self._keys.find(credential.key_id)
        if not credentials.matches(credential.secret, kept.secret_digest if kept else None):
            kept = await self._keys.find_again(credential.key_id)
            if not credentials.matches(credential.secret, kept.secret_digest if kept else None):
                return None
        return kept


def require_quota(caller: Caller) -> None:
    if exceeded(caller.key, caller.admitted.count):
        raise Refused(QUOTA_EXCEEDED)
