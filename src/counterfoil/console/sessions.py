"""Signing in: links, the sessions that they begin, and the one-time tokens that prevent a form from being sent twice.

A link contains the name of the operator and is signed with a key derived from the deployment secret. Anyone who can
read the secret can therefore make a link, from any process and without a running console. The token is in the fragment
of the link, which browsers do not send, so it does not appear in logs. A console accepts only links that were made for
its own address after it was started. Each link works only once, and only until it expires.

The browser has a random session token, and the console keeps only its hash. If a trusted proxy identifies the operator,
there is no token. A session ends after IDLE_SEC without a request from the operator, after LONGEST_SEC in any case,
when the operator signs out or signs in again in the same browser, when any operator ends all sessions, or when the
console stops. If there are too many sessions, the one that has been idle the longest ends.
"""

import base64
import hashlib
import hmac
import secrets
import shlex
import threading
from collections import OrderedDict
from collections.abc import Callable

from msgspec import MsgspecError, Struct, field, json

from counterfoil.console.texts import Language
from counterfoil.domain.audit import Actor
from counterfoil.domain.calendar import HOUR_MS
from counterfoil.domain.tokens import Signer
from counterfoil.ports import Clock
from counterfoil.settings import BY_NAME, Settings

# --- links ----------------------------------------------------------------------------


SIGN_IN_PATH = "/sign-in"
DEFAULT_VALIDITY_MS = 15 * 60_000
MAX_VALIDITY_MS = 24 * HOUR_MS
# A link may be this much older than the console, because another process makes it, and that process may read the clock
# just before the console starts.
CLOCK_TOLERANCE_MS = 1_000
_NONCE_BYTES = 16
# Letters and digits of 5 bits each: 100 bits.
_NAME_LENGTH = 20


class LinkClaims(Struct, frozen=True, array_like=True):
    """The signed content of a link."""

    name: str
    host: str
    audience: str
    made_at: int
    expires_at: int
    nonce: str


def link_command(settings: Settings) -> str:
    """Return the command that makes another link for the console with these settings.

    The address of a database contains a login, so it is left out. The command must then be run with the
    console's settings.
    """
    words = ["counterfoil", "console", "link"]
    if not settings.database and str(settings.store) != BY_NAME["store"].default:
        words += ["--store", str(settings.store.absolute())]
    if settings.console_host != BY_NAME["console_host"].default:
        words += ["--console-host", settings.console_host]
    if settings.console_port != BY_NAME["console_port"].default:
        words += ["--console-port", str(settings.console_port)]
    return shlex.join(words)


def link_key(secret: bytes) -> bytes:
    """Return the key that signs links."""
    return hmac.digest(secret, b"counterfoil console sign-in link", "sha256")


def own_name(key: bytes, audience: str) -> str:
    """Return the host name of the console at the address `audience`, which nobody can guess without the link key.

    Browsers resolve every name below `localhost` to this machine, and send a cookie only to the name that set it.
    """
    digest = hmac.digest(key, f"host name {audience}".encode(), "sha256")
    return f"{base64.b32encode(digest).decode().lower()[:_NAME_LENGTH]}.localhost"


def make_token(
    key: bytes, by: Actor, audience: str, now_ms: int, validity_ms: int, random_bytes: Callable[[int], bytes]
) -> str:
    """Return the token of a new link for the console at the address `audience`."""
    nonce = random_bytes(_NONCE_BYTES).hex()
    claims = LinkClaims(by.name, by.host, audience, now_ms, now_ms + validity_ms, nonce)
    return Signer(key).signed(json.encode(claims))


class SignInLinks:
    """Accepts the links of one console, each only once."""

    def __init__(self, key: bytes, audience: str, clock: Clock) -> None:
        self._signer = Signer(key)
        self._audience = audience
        self._clock = clock
        self._started_at = clock.now_ms()
        self._used: dict[str, int] = {}
        self._lock = threading.Lock()

    def accept(self, token: str) -> Actor | None:
        """Return the operator for whom the link was made, or None if the link is not valid or was used before."""
        claims = self._verified(token)
        now = self._clock.now_ms()
        if claims is None or claims.audience != self._audience or now >= claims.expires_at:
            return None
        # A link made before this console started may have been used: only the previous process knew which were used.
        if claims.made_at < self._started_at - CLOCK_TOLERANCE_MS:
            return None
        with self._lock:
            self._used = {nonce: expires_at for nonce, expires_at in self._used.items() if expires_at > now}
            if claims.nonce in self._used:
                return None
            self._used[claims.nonce] = claims.expires_at
        return Actor(claims.name, "console", claims.host)

    def _verified(self, token: str) -> LinkClaims | None:
        claims = self._signer.verified(token.strip().rpartition("#")[2])
        try:
            return None if claims is None else json.decode(claims, type=LinkClaims)
        except MsgspecError:
            return None


def fingerprint(token: str) -> str:
    """Return a hash of a token, which can be stored instead of the token itself."""
    return hashlib.sha256(token.encode()).hexdigest()


# --- sessions -------------------------------------------------------------------------


IDLE_SEC = 30 * 60
LONGEST_SEC = 8 * 3600
MAX_SESSIONS = 200
MAX_FORMS = 200


class Session(Struct, kw_only=True):
    """An operator's session. `forms` maps a form's token to None until it is submitted, then to `sent` or a result."""

    actor: Actor
    began_us: int
    seen_us: int
    language: Language | None = None
    is_proxied: bool = False
    forms: OrderedDict[str, str | None] = field(default_factory=OrderedDict)


class Sessions:
    """The sessions of a console. Safe to use from several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_hash: dict[str, Session] = {}
        self._lock = threading.Lock()

    def begin(self, actor: Actor) -> str:
        """Begin a session; return the token for its cookie."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._drop_ended()
            self._make_room()
            self._by_hash[fingerprint(token)] = self._new(actor)
        return token

    def find(self, token: str, *, is_use: bool = True) -> Session | None:
        """Return the session of a token, or None if the session has ended.

        If `is_use` is false, the request does not extend the session: a page that refreshes itself must not keep a
        session alive after the operator has left.
        """
        if not token:
            return None
        with self._lock:
            self._drop_ended()
            session = self._by_hash.get(fingerprint(token))
            if session and is_use:
                session.seen_us = self._clock.steady_us()
            return session

    def of_proxy(self, actor: Actor, *, is_use: bool = True) -> tuple[Session, bool]:
        """Return the session of an operator whom the trusted proxy has identified, and whether it has just begun."""
        name = fingerprint(f"proxy {actor.name}")
        with self._lock:
            self._drop_ended()
            session = self._by_hash.get(name)
            is_new = session is None
            if session is None:
                self._make_room()
                session = self._by_hash[name] = self._new(actor, is_proxied=True)
            if is_use:
                session.seen_us = self._clock.steady_us()
            return session, is_new

    def end(self, token: str) -> None:
        with self._lock:
            self._by_hash.pop(fingerprint(token), None)

    def end_all(self) -> int:
        """End every session; return how many there were."""
        with self._lock:
            self._drop_ended()
            count = len(self._by_hash)
            self._by_hash.clear()
            return count

    def count(self) -> int:
        with self._lock:
            self._drop_ended()
            return len(self._by_hash)

    # --- forms ---------------------------------------------------------------------

    def new_form(self, session: Session) -> str:
        """Return the token of a new form, which can be submitted only once."""
        token = secrets.token_urlsafe(12)
        with self._lock:
            session.forms[token] = None
            while len(session.forms) > MAX_FORMS:
                session.forms.popitem(last=False)
        return token

    def use_form(self, session: Session, token: str) -> str | None:
        """Mark a form as submitted and return None, or return the reason why it cannot be submitted.

        The reason is `unknown` if the form does not belong to this session; otherwise it is the result of the first
        submission, or `sent` if there is no result.
        """
        with self._lock:
            if token not in session.forms:
                return "unknown"
            result = session.forms[token]
            if result is None:
                session.forms[token] = "sent"
            return result

    def set_result(self, session: Session, token: str, result: str) -> None:
        """Store the result of a form, which is shown if the form is submitted again."""
        with self._lock:
            if token in session.forms:
                session.forms[token] = result

    # --- expiry --------------------------------------------------------------------

    def _new(self, actor: Actor, *, is_proxied: bool = False) -> Session:
        now = self._clock.steady_us()
        return Session(actor=actor, began_us=now, seen_us=now, is_proxied=is_proxied)

    def _make_room(self) -> None:
        """If there are too many sessions, end the one that has been idle the longest."""
        if len(self._by_hash) >= MAX_SESSIONS:
            del self._by_hash[min(self._by_hash, key=lambda digest: self._by_hash[digest].seen_us)]

    def _drop_ended(self) -> None:
        now = self._clock.steady_us()
        self._by_hash = {
            token: session
            for token, session in self._by_hash.items()
            if now - session.seen_us < IDLE_SEC * 1_000_000 and now - session.began_us < LONGEST_SEC * 1_000_000
        }
