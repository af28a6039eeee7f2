"""Functions that both clients use to check the base URL, prepare TLS and headers, and decompress responses.

httpx is imported only where it is needed, because importing it is slow.
"""

import os
import ssl
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from backports import zstd

from counterfoil import API_VERSION
from counterfoil.client.conversation import HttpResponse

if TYPE_CHECKING:
    from counterfoil.client.httpx_import import httpx

TIMEOUT_SEC = 30.0
_ZSTD_FRAME = b"\x28\xb5\x2f\xfd"


def checked_url(base_url: str) -> str:
    """Return the base URL without trailing slashes. Raise `ValueError` if it is not valid."""
    try:
        url = urlsplit(base_url)
        is_usable = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError as error:
        raise ValueError(f"{base_url!r} is not a valid URL: {error}") from error
    if url.username is not None:
        raise ValueError(
            "the base URL must not contain a user name or a password, because they would be sent instead of the key"
        )
    has_more = "?" in base_url or "#" in base_url
    if not is_usable or has_more or len(base_url.split()) != 1 or not base_url.isprintable():
        raise ValueError(f"{base_url!r} is not a valid base URL. Use a URL such as https://example.com/ext/v1")
    return base_url.rstrip("/")


def request_headers(key: str) -> dict[str, str]:
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError("this is not a valid API key: a key consists of letters, digits and underscores")
    return {
        "authorization": f"Bearer {key}",
        "accept": "application/json",
        "accept-encoding": "zstd, gzip",
        "user-agent": f"counterfoil-client/{API_VERSION}",
    }


def tls_context(base_url: str) -> ssl.SSLContext:
    """Return the TLS context. Load certificates, which takes tens of milliseconds, only if TLS may be used."""
    if base_url.startswith("http://") and not has_proxy():
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # This context does not trust any certificate.
    from counterfoil.client.httpx_import import httpx  # noqa: PLC0415 - imported late on purpose

    return httpx.create_ssl_context()


def to_response(response: "httpx.Response") -> HttpResponse:
    body = response.content
    # httpx decompresses zstd only if the package `zstandard` is installed.
    if response.headers.get("content-encoding") == "zstd" and body.startswith(_ZSTD_FRAME):
        try:
            body = zstd.decompress(body)
        except zstd.ZstdError as error:
            from counterfoil.client.httpx_import import httpx  # noqa: PLC0415 - imported late on purpose

            raise httpx.DecodingError(str(error)) from error
    return HttpResponse(response.status_code, response.headers, body)


def has_proxy() -> bool:
    """Return whether a proxy may be configured, in the environment or, on some systems, in the system settings."""
    if sys.platform in ("darwin", "win32"):
        # Imported here because the import is slow, and only these systems have system-wide proxy settings.
        from urllib.request import getproxies  # noqa: PLC0415

        return bool(getproxies())
    return any(value and name.lower().endswith("_proxy") for name, value in os.environ.items())
