"""Chooses how the blocking client sends its requests: with the standard library, or with httpx."""

from typing import TYPE_CHECKING, Protocol

from counterfoil.client.connection import has_proxy, request_headers
from counterfoil.client.conversation import Call, HttpResponse, NoResponse
from counterfoil.client.plain_http import PlainHttp

if TYPE_CHECKING:
    from counterfoil.client.httpx_import import httpx


class Connection(Protocol):
    """Sends the requests of the blocking client."""

    def get(self, call: Call) -> HttpResponse | NoResponse: ...

    def close(self) -> None: ...


def open_connection(
    base_url: str, key: str, timeout_sec: float, transport: "httpx.BaseTransport | None" = None
) -> Connection:
    """Return a connection to the service. Its socket is opened at the first request."""
    headers = request_headers(key)
    # The standard library does not encode host names and paths that contain non-ASCII characters.
    is_plain = base_url.startswith("http://") and base_url.isascii() and not has_proxy()
    if is_plain and transport is None:
        return PlainHttp(base_url, headers, timeout_sec)
    # Imported here because importing httpx is slow.
    from counterfoil.client.httpx_connection import HttpxConnection  # noqa: PLC0415

    return HttpxConnection(base_url, headers, timeout_sec, transport)
