"""Sign-in links. A link contains the name of the operator and is signed with a key derived from the deployment secret.

Anyone who can read the deployment secret can therefore make a link, from any process and without a running console. The
token is in the fragment of the link, which browsers do not send, so it does not appear in logs. A console accepts only
links that were made for its own address after it was started. Each link works only once, and only until it expires.
"""

import base64
import hashlib
import hmac
import shlex
import threading
from collections.abc import Callable

from msgspec import MsgspecError, Struct, json

from counterfoil.domain.audit import Actor
from counterfoil.domain.calendar import HOUR_MS
from counterfoil.domain.tokens import Signer
from counterfoil.ports import Clock
from counterfoil.settings import BY_NAME, Settings

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
