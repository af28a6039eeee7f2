"""What both clients share: checking the address, the request headers, decompressing an answer."""

import httpx
from backports import zstd

from counterfoil import API_VERSION
from counterfoil.client.conversation import Received

TIMEOUT_SEC = 30.0
_ZSTD_FRAME = b"\x28\xb5\x2f\xfd"


def address(base_url: str) -> str:
    """Return the base URL without its trailing slash. An invalid one fails at once, not after a minute of retries."""
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise ValueError(f"{base_url!r} is no URL: {error}") from error
    usable = url.scheme in ("http", "https") and url.host and not (url.query or url.fragment)
    if url.userinfo:
        raise ValueError("a base URL carries no user and no password: they would go out in place of the key")
    if not usable or len(base_url.split()) != 1:
        raise ValueError(f"{base_url!r} is no base URL: it looks like https://example.com/ext/v1")
    return base_url.rstrip("/")


def headers(key: str) -> dict[str, str]:
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError("this is no API key: a key is a word of letters, digits and underscores")
    return {
        "authorization": f"Bearer {key}",
        "accept": "application/json",
        "accept-encoding": "zstd, gzip",
        "user-agent": f"counterfoil-client/{API_VERSION}",
    }


def received(response: httpx.Response) -> Received:
    body = response.content
    # httpx decompresses zstd only if the package `zstandard` is installed.
    if response.headers.get("content-encoding") == "zstd" and body.startswith(_ZSTD_FRAME):
        try:
            body = zstd.decompress(body)
        except zstd.ZstdError as error:
            raise httpx.DecodingError(str(error)) from error
    return Received(response.status_code, response.headers, body)
