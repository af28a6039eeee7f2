"""What the console keeps in memory about each device or proxied operator: language, form tokens, a key to try requests.

A form token prevents a form from being sent twice. The session of an operator whom a proxy names has no device, and
ends after the lifetimes of a device that was signed in without a number of days.
"""

import secrets
import threading
from collections import OrderedDict

from msgspec import Struct, field

from counterfoil.console.texts import Language
from counterfoil.domain.audit import Actor
from counterfoil.domain.devices import Device, Lifetimes, Role
from counterfoil.key_issuing import Issued
from counterfoil.ports import Clock

MAX_SESSIONS = 200
MAX_FORMS = 200


class Session(Struct, kw_only=True):
    """`forms` maps a form's token to None until it is submitted, then to `sent` or a result. A proxy has no device."""

    actor: Actor
    role: Role
    device_id: str | None
    began_us: int
    seen_us: int
    language: Language | None = None
    try_key: Issued | None = None
    forms: OrderedDict[str, str | None] = field(default_factory=OrderedDict)


class Sessions:
    """The sessions of a console. Safe to use from several threads."""

    def __init__(self, clock: Clock, lifetimes: Lifetimes) -> None:
        self._clock = clock
        self._lifetimes = lifetimes
        self._by_name: dict[str, Session] = {}
        self._lock = threading.Lock()

    def of_device(self, device: Device) -> Session:
        return self._session(f"device {device.device_id}", device.actor, device.role, device.device_id)[0]

    def of_proxy(self, actor: Actor, *, is_use: bool = True) -> tuple[Session, bool]:
        """Return the session of an operator whom the trusted proxy has identified, and whether it has just begun."""
        return self._session(f"proxy {actor.name}", actor, "operator", None, is_use=is_use)

    def _session(
        self, name: str, actor: Actor, role: Role, device_id: str | None, *, is_use: bool = True
    ) -> tuple[Session, bool]:
        now = self._clock.steady_us()
        with self._lock:
            self._drop_ended(now)
            is_new = name not in self._by_name
            if is_new:
                if len(self._by_name) >= MAX_SESSIONS:
                    del self._by_name[min(self._by_name, key=lambda name: self._by_name[name].seen_us)]
                self._by_name[name] = Session(actor=actor, role=role, device_id=device_id, began_us=now, seen_us=now)
            session = self._by_name[name]
            if is_use:
                session.seen_us = now
            return session, is_new

    def _drop_ended(self, now: int) -> None:
        """End the sessions of proxied operators. Whether a device is signed in is not decided here."""
        idle_us, longest_us = self._lifetimes.idle_ms * 1000, self._lifetimes.longest_ms * 1000
        self._by_name = {
            name: session
            for name, session in self._by_name.items()
            if session.device_id or (now - session.seen_us < idle_us and now - session.began_us < longest_us)
        }

    def new_form(self, session: Session) -> str:
        """Return the token of a new form, which can be submitted only once."""
        token = secrets.token_urlsafe(12)
        with self._lock:
            session.forms[token] = None
            while len(session.forms) > MAX_FORMS:
                session.forms.popitem(last=False)
        return token

    def use_form(self, session: Session, token: str) -> str | None:
        """Mark a form as sent and return None, or return `unknown`, `sent` or the result of the first time."""
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
