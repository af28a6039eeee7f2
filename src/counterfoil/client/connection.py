"""Sends requests with httpx: checks the base URL, prepares TLS and headers, and reads responses within limits."""

import os
import socket
import ssl
import sys
import threading
import zlib
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, TypedDict
from urllib.parse import urlsplit
from weakref import WeakSet

import httpx
from backports import zstd

from counterfoil import API_VERSION
from counterfoil.client.conversation import Call, HttpResponse, NoResponse, TooLarge
from counterfoil.text import without_password

TIMEOUT_SEC = 30.0
# The timeout applies to each read. A response must be complete after this many timeouts, even if bytes keep arriving.
TIMEOUTS_PER_RESPONSE = 4
# A response may have this many bytes, compressed and decompressed. The largest page of the change feed has 8.6 MiB, and
# a page of SMALLEST_LIMIT records, of at most 512 KiB each, 12.5 MiB.
MAX_BODY_BYTES = 16 * 1024 * 1024
# RFC 9659 allows a window of 8 MiB.
_ZSTD_OPTIONS: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 23}


def checked_url(base_url: str) -> str:
    """Return the base URL without trailing slashes. Raise `ValueError` if it is not valid."""
    try:
        url = urlsplit(base_url)
        is_usable = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError:
        # The original message may quote a part of the URL that contains a password.
        raise ValueError(f"{without_password(base_url)!r} is not a valid URL") from None
    if url.username is not None:
        raise ValueError(
            "the base URL must not contain a user name or a password, because they would be sent instead of the key"
        )
    has_more = "?" in base_url or "#" in base_url
    if not is_usable or has_more or len(base_url.split()) != 1 or not base_url.isprintable():
        masked = without_password(base_url)
        raise ValueError(f"{masked!r} is not a valid base URL. Use a URL such as https://example.com/ext/v1")
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
    if base_url.startswith("http://") and not _has_proxy():
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # This context does not trust any certificate.
    return httpx.create_ssl_context()


def _has_proxy() -> bool:
    """Return whether a proxy may be configured, in the environment or, on some systems, in the system settings."""
    if sys.platform in ("darwin", "win32"):
        # Imported here because the import is slow, and only these systems have system-wide proxy settings.
        from urllib.request import getproxies  # noqa: PLC0415

        return bool(getproxies())
    return any(value and name.lower().endswith("_proxy") for name, value in os.environ.items())


class ClientOptions(TypedDict):
    """The arguments that both clients of httpx get."""

    headers: dict[str, str]
    timeout: float
    verify: ssl.SSLContext
    cookies: CookieJar


def client_options(base_url: str, key: str, timeout_sec: float) -> ClientOptions:
    return {
        "headers": request_headers(key),
        "timeout": timeout_sec,
        "verify": tls_context(base_url),
        # The API has no cookies. A service could otherwise fill the memory with them.
        "cookies": CookieJar(DefaultCookiePolicy(allowed_domains=[])),
    }


class Connection:
    """Sends the requests of the blocking client, and keeps connections open between them. Threads may share it."""

    def __init__(
        self, base_url: str, key: str, timeout_sec: float, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._base_url = base_url
        self._http = httpx.Client(**client_options(base_url, key, timeout_sec), transport=transport)
        self._response_sec = TIMEOUTS_PER_RESPONSE * timeout_sec
        self._lock = threading.Lock()
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._is_closed = False

    def get(self, call: Call) -> HttpResponse | NoResponse | TooLarge:
        if self._is_closed:
            return NoResponse("the client is closed")
        is_overdue = threading.Event()
        timer = threading.Timer(self._response_sec, self._interrupt, (is_overdue,))
        timer.daemon = True
        timer.start()
        try:
            request = self._http.build_request(
                "GET", f"{self._base_url}/{call.path}", params=call.query, extensions={"trace": self._note_socket}
            )
            response = self._http.send(request, stream=True)
            try:
                if response.is_stream_consumed:
                    return complete(response)
                body = BodyReader(response)
                for chunk in response.iter_raw():
                    if not body.add(chunk):
                        break
                return body.response()
            finally:
                response.close()
        except FAILURES as error:
            return too_slow(self._response_sec) if is_overdue.is_set() else no_response(error)
        except RuntimeError:  # httpx raises this if another thread has closed the client in the meantime.
            if not self._is_closed:
                raise
            return NoResponse("the client is closed")
        finally:
            timer.cancel()

    def close(self) -> None:
        """Close all connections. Requests of other threads end at once, without a response."""
        self._is_closed = True
        self._interrupt()
        self._http.close()

    def _note_socket(self, event: str, info: dict[str, Any]) -> None:
        """Remember the sockets of new connections. httpx calls this at every step of a request."""
        if not event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            return
        opened = info["return_value"].get_extra_info("socket")
        with self._lock:
            self._sockets.add(opened)
        if self._is_closed:
            self._interrupt()

    def _interrupt(self, event: threading.Event | None = None) -> None:
        """Shut down all sockets, which wakes the threads that wait for data. Set the event before that."""
        if event is not None:
            event.set()
        with self._lock:
            for opened in self._sockets:
                try:
                    # The method of TLS sockets would change them while another thread uses them.
                    socket.socket.shutdown(opened, socket.SHUT_RDWR)
                except OSError:
                    continue


# What httpx raises if there is no usable response. A cursor that is too long for a URL raises InvalidURL.
FAILURES = (httpx.HTTPError, httpx.InvalidURL, zlib.error, zstd.ZstdError, EOFError)


def no_response(error: Exception) -> NoResponse:
    return NoResponse(f"{type(error).__name__}: {error}")


def too_slow(seconds: float) -> NoResponse:
    return NoResponse(f"the response was not complete after {seconds:g} seconds")


def complete(response: httpx.Response) -> HttpResponse:
    """Return a response that was complete from the beginning, as those of a test's transport are."""
    return HttpResponse(response.status_code, response.headers, response.content)


class BodyReader:
    """Collects the body of a response, and decompresses it when it is complete."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._chunks: list[bytes] = []
        self._size = 0

    def add(self, chunk: bytes) -> bool:
        """Add a chunk. Return False if the body is too large, so that no more of it should be read."""
        self._chunks.append(chunk)
        self._size += len(chunk)
        return self._size <= MAX_BODY_BYTES

    def response(self) -> HttpResponse | TooLarge:
        """Return the response with its decompressed body. A body that ends too early raises one of FAILURES."""
        if self._size > MAX_BODY_BYTES:
            return TooLarge(MAX_BODY_BYTES)
        headers = self._response.headers
        body = _decompressed(headers.get("content-encoding", ""), b"".join(self._chunks))
        if len(body) > MAX_BODY_BYTES:
            return TooLarge(MAX_BODY_BYTES)
        return HttpResponse(self._response.status_code, headers, body)


def _decompressed(encoding: str, body: bytes) -> bytes:
    """Return the decompressed body, or the first part of it if it is larger than MAX_BODY_BYTES."""
    decompressor: Any
    most = MAX_BODY_BYTES
    if encoding == "zstd":
        # A buffer of the right size halves the time.
        most = min(most, zstd.get_frame_info(body).decompressed_size or most)
        decompressor = zstd.ZstdDecompressor(options=_ZSTD_OPTIONS)
    elif encoding == "gzip":
        decompressor = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    else:
        return body
    part: bytes = decompressor.decompress(body, most + 1)
    if len(part) <= MAX_BODY_BYTES and not decompressor.eof:
        raise EOFError("the compressed body ends too early")
    return part
