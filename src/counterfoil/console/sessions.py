"""Server-side sessions, and the one-time tokens that prevent a form from being submitted twice.

The browser has a random session token, and the console keeps only its hash. If a trusted proxy identifies the operator,
there is no token. A session ends after IDLE_SEC without a request from the operator, after LONGEST_SEC in any case,
when the operator signs out or signs in again in the same browser, when any operator ends all sessions, or when the
console stops. If there are too many sessions, the one that has been idle the longest ends.
"""

import secrets
import threading
from collections import OrderedDict

from msgspec import Struct, field

from counterfoil.console.links import fingerprint
from counterfoil.console.texts import Language
from counterfoil.domain.audit import Actor
from counterfoil.ports import Clock

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
            del self._by_hash[min(self._by_hash, key=lambda one: self._by_hash[one].seen_us)]

    def _drop_ended(self) -> None:
        now = self._clock.steady_us()
        self._by_hash = {
            token: session
            for token, session in self._by_hash.items()
            if now - session.seen_us < IDLE_SEC * 1_000_000 and now - session.began_us < LONGEST_SEC * 1_000_000
        }
