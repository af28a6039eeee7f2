"""Sends the requests of the blocking client with httpx, which supports TLS and proxies."""

from collections.abc import Mapping

from counterfoil.client.connection import tls_context, to_response
from counterfoil.client.conversation import Call, HttpResponse, NoResponse
from counterfoil.client.httpx_import import httpx


class HttpxConnection:
    def __init__(
        self, base_url: str, headers: Mapping[str, str], timeout_sec: float, transport: httpx.BaseTransport | None
    ) -> None:
        self._base_url = base_url
        self._http = httpx.Client(
            headers=headers, timeout=timeout_sec, transport=transport, verify=tls_context(base_url)
        )

    def get(self, call: Call) -> HttpResponse | NoResponse:
        try:
            return to_response(self._http.get(f"{self._base_url}/{call.path}", params=call.query))
        except httpx.HTTPError as error:
            return NoResponse(f"{type(error).__name__}: {error}")

    def close(self) -> None:
        self._http.close()
