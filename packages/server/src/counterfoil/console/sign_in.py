"""Signing in: links, and the devices that they sign in.

A link contains the device that it signs in, with its name and role, and is signed with a key derived from the
deployment secret. Anyone who can read the secret can therefore make a link, from any process. The token is in the
fragment of the link, which browsers do not send, so it does not appear in logs. A console accepts only links that were
made for its own address, each only once, and only until it expires.

The browser of a device has a random token, and the store has its hash: a device stays signed in if the console is
restarted, and a revoked one is refused at its next request. While the store cannot be used, a console accepts only the
links that were made since it was started, so that operators can see what is wrong.
"""

import base64
import hashlib
import hmac
import secrets
import shlex
import threading
from contextlib import suppress

from msgspec import MsgspecError, json
from msgspec.structs import replace

from counterfoil import bootstrap, devices
from counterfoil.domain.audit import Act, Actor
from counterfoil.domain.devices import Device, Lifetimes, Role, expires_at, state_of
from counterfoil.domain.tokens import Signer
from counterfoil.machine.addresses import is_loopback, reachable_host, url
from counterfoil.model.calendar import DAY_MS, HOUR_MS
from counterfoil.ports import Clock, StoreMismatch, StoreUnavailable
from counterfoil.settings import BY_NAME, Settings

SIGN_IN_PATH = "/sign-in"
DEFAULT_VALIDITY_MS = 15 * 60_000
MAX_VALIDITY_MS = 24 * HOUR_MS
# A link may be this much older than the console: the process that makes it may read the clock just before.
CLOCK_TOLERANCE_MS = 1_000
# Letters and digits of 5 bits each: 100 bits.
_NAME_LENGTH = 20


def link_command(settings: Settings, program: str = "counterfoil") -> str:
    """Return the command that makes another link. A database's address is left out, because it contains a login."""
    words = ["console", "link"]
    if not settings.database and str(settings.store) != BY_NAME["store"].default:
        words += ["--store", str(settings.store.absolute())]
    if settings.console_host != BY_NAME["console_host"].default:
        words += ["--console-host", settings.console_host]
    if settings.console_port != BY_NAME["console_port"].default:
        words += ["--console-port", str(settings.console_port)]
    return f"{program} {shlex.join(words)}"


def audience(settings: Settings) -> str:
    """Return this console's address, for which its sign-in links are signed."""
    return f"{settings.console_host}:{settings.console_port}"


def link_key(secret: bytes) -> bytes:
    return hmac.digest(secret, b"counterfoil console sign-in link", "sha256")


def own_name(key: bytes, audience: str) -> str:
    """Return the host name of the console at the address `audience`, which nobody can guess without the link key."""
    # Browsers resolve every name below `localhost` to this machine, and send a cookie only to the name that set it.
    digest = hmac.digest(key, f"host name {audience}".encode(), "sha256")
    return f"{base64.b32encode(digest).decode().lower()[:_NAME_LENGTH]}.localhost"


def new_device(
    by: Actor,
    now_ms: int,
    validity_ms: int | None = None,
    name: str = "",
    role: Role = "operator",
    days: int | None = None,
) -> Device:
    """Return a device that a link will sign in. Without a name, it has the name of the person who makes the link."""
    return Device(
        device_id=secrets.token_hex(5),
        name=name or by.name,
        role=role,
        days=days,
        made_by=by.name,
        made_on=by.host,
        made_at=now_ms,
        link_until=now_ms + (validity_ms or DEFAULT_VALIDITY_MS),
    )


def link_token(key: bytes, device: Device, audience: str) -> str:
    return Signer(key).signed(json.encode(device), audience.encode())


def sign_in_link(settings: Settings, device: Device, base_url: str | None = None) -> str:
    key = link_key(bootstrap.deployment_secret(settings))
    is_local = is_loopback(reachable_host(settings.console_host))
    host = own_name(key, audience(settings)) if is_local else settings.console_host
    base = (base_url or url(host, settings.console_port)).rstrip("/")
    return f"{base}{SIGN_IN_PATH}#{link_token(key, device, audience(settings))}"


# The time of the latest use is stored at most this often: every write to the keys makes workers read them again.
USE_STORED_MS = 60_000
MAX_KNOWN = 1_000
# A device that cannot be looked up, because the store is locked for a moment, is trusted for this long.
TRUSTED_MS = 5_000


def lifetimes(settings: Settings) -> Lifetimes:
    return Lifetimes(
        idle_ms=settings.console_idle_min * 60_000,
        longest_ms=settings.console_max_hours * HOUR_MS,
        idle_in_days_ms=settings.console_idle_days * DAY_MS,
        most_days=settings.console_max_days,
    )


class SignedInDevices:
    """The devices that are signed in to one console. Safe to use from several threads."""

    def __init__(self, settings: Settings, key: bytes, clock: Clock) -> None:
        self._settings = settings
        self._signer = Signer(key)
        self._clock = clock
        self._lifetimes = lifetimes(settings)
        self._started_at = clock.now_ms()
        self._lock = threading.Lock()
        # The devices that used this console, by the hash of their token, and when the store was last asked about each.
        self._known: dict[bytes, tuple[Device, int]] = {}
        # Devices that were signed in or out while the store could not be written.
        self._unrecorded: dict[bytes, Device] = {}
        self._signed_out: set[str] = set()
        self._used_links: set[str] = set()

    def sign_in(self, link: str) -> tuple[str, int] | None:
        """Return the token for the device's cookie and its lifetime in seconds, or None if the link is refused."""
        device = self._linked(link)
        now = self._clock.now_ms()
        if device is None or now >= device.link_until:
            return None
        token = secrets.token_urlsafe(32)
        signed_in = replace(device, signed_in_at=now, last_used_at=now)
        # One at a time, because a link must not work twice even while the store cannot be written.
        with self._lock:
            if device.device_id in self._used_links:
                return None
            try:
                if not devices.sign_in(bootstrap.store(self._settings).devices(), signed_in, _digest(token)):
                    return None
            except (StoreUnavailable, StoreMismatch):
                # Only the previous process knew which links were used.
                if device.made_at < self._started_at - CLOCK_TOLERANCE_MS:
                    return None
                self._unrecorded[_digest(token)] = signed_in
                self._used_links.add(device.device_id)
            self._remember(_digest(token), signed_in, now)
        return token, (expires_at(signed_in, self._lifetimes) - now) // 1000

    def _linked(self, link: str) -> Device | None:
        signed = self._signer.verified(link.strip().rpartition("#")[2], audience(self._settings).encode())
        try:
            return None if signed is None else json.decode(signed, type=Device)
        except MsgspecError:
            return None

    def find(self, token: str, *, is_use: bool = True) -> Device | None:
        """Return the device of a token, or None. A page that refreshes itself (not `is_use`) keeps nobody signed in."""
        if not token:
            return None
        digest, now = _digest(token), self._clock.now_ms()
        known, checked_at = self._known.get(digest, (None, 0))
        try:
            device, checked_at = self._stored(digest), now
        except (StoreUnavailable, StoreMismatch):
            # A device that the store does not know cannot have been revoked there.
            device = self._unrecorded.get(digest) or (known if 0 <= now - checked_at < TRUSTED_MS else None)
        if device and device.device_id in self._signed_out:
            self._end(device)
            device = None
        stored_use = device.last_used_at if device else None
        if device and known and known.last_used_at:
            device = device.used(known.last_used_at)
        if device is None or state_of(device, self._lifetimes, now) != "signed_in":
            with self._lock:
                self._known.pop(digest, None)
            return None
        if is_use:
            device = device.used(now)
            if now - (stored_use or 0) >= USE_STORED_MS:
                with suppress(StoreUnavailable, StoreMismatch):
                    devices.note_use(bootstrap.store(self._settings).devices(), device.device_id, now)
        with self._lock:
            self._remember(digest, device, checked_at)
        return device

    def _stored(self, digest: bytes) -> Device | None:
        """Return the device as it is stored, after recording it if it was signed in while the store was down."""
        stored = bootstrap.store(self._settings).reads().device(digest)
        with self._lock:
            missing = None if stored else self._unrecorded.get(digest)
            if missing:
                is_new = devices.sign_in(bootstrap.store(self._settings).devices(), missing, digest)
                del self._unrecorded[digest]
                return missing if is_new else None
        return stored

    def _remember(self, digest: bytes, device: Device, checked_at: int) -> None:
        self._known.pop(digest, None)
        self._known[digest] = (device, checked_at)
        while len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]

    def sign_out(self, token: str) -> None:
        device = self.find(token, is_use=False)
        if device:
            self._end(device)

    def _end(self, device: Device) -> None:
        """Sign a device out in the store, or only in this console until the store can be written."""
        with suppress(devices.UnknownDevice):
            try:
                store, now = bootstrap.store(self._settings).devices(), self._clock.now_ms()
                devices.revoke(store, device.device_id, now, device.actor, Act.CONSOLE_SIGNED_OUT)
            except (StoreUnavailable, StoreMismatch):
                self._signed_out.add(device.device_id)


def _digest(token: str) -> bytes:
    """Return a hash of a token, which can be stored instead of the token itself."""
    return hashlib.sha256(token.encode()).digest()
