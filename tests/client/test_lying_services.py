"""Tests that a service that lies can neither exhaust this machine nor damage a copy, and that the message is plain."""

import gzip
import json
import random
import socket
import sqlite3
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from backports import zstd
from click.testing import CliRunner, Result

from client.scripted_service import Answer, scripted_service
from counterfoil.client import Client, Unreachable
from counterfoil.client.errors import ResponseTooLarge
from counterfoil.client.sinks.sql import column_names
from counterfoil.client.tables import BILLS as BILLS_TABLE
from counterfoil.client.tables import SHOPS
from counterfoil.copies.remote import DIFFERENT
from counterfoil.program.main import program

NOW = "2026-01-31T12:00:00.000Z"
USAGE = {"ok": True, "data": {"keyId": "k", "scope": "franchise", "rate": {"perMin": 100_000}}, "serverTime": NOW}
SHOP = {
    "shopId": "s1",
    "shopName": "Riverside",
    "franchiseId": "f",
    "providerId": "p",
    "timezone": "Asia/Bangkok",
    "categories": [],
}
BILL = {"id": "b1", "shopId": "s1", "status": "completed", "amounts": {"net": 1}, "billDate": "2026-01-31"}
FEED: list[dict[str, Any]] = [
    {"type": "shop", "shopId": "s1", "full": True, "inScope": True, "shop": SHOP},
    {"type": "bill", "shopId": "s1", "bill": BILL},
    {"type": "billRemoved", "shopId": "s1", "id": "b2"},
]
DIGEST = {"shopId": "s1", "day": "2026-01-31", "bills": 1, "voids": 0, "net": 1.5, "tip": 0, "hash": "another"}


def page(*rows: dict[str, Any], **fields: str) -> dict[str, Any]:
    return {"ok": True, "data": list(rows), "serverTime": NOW, "nextCursor": None, **fields}


HONEST: dict[str, Any] = {
    "usage": USAGE,
    "changes": page(*FEED, mark="m1"),
    "members": page({"memberId": "m1"}),
    "digests": page(DIGEST),
    "transactions": page(BILL),
}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COUNTERFOIL_KEY", "cf_live_invented")
    monkeypatch.setattr("counterfoil.client.connection.FIRST_PAUSE_SEC", 0.0001)
    monkeypatch.chdir(tmp_path)


def route(path: str) -> str:
    return path.partition("?")[0].rpartition("/")[2]


@contextmanager
def service(**lies: bytes | Callable[[], Answer]) -> Iterator[str]:
    """Run a service that answers honestly except on the given routes."""

    def answer(path: str, headers: Mapping[str, str]) -> Answer:
        lie = lies.get(route(path))
        if callable(lie):
            return lie()
        return 200, {"content-type": "application/json"}, lie or json.dumps(HONEST[route(path)]).encode()

    with scripted_service(answer) as url:
        yield url


def run(command: str, url: str, to: str = "copy.sqlite") -> Result:
    result = CliRunner().invoke(program, [command, "--url", url, "--to", to])
    assert "Traceback" not in result.output
    assert "unexpected error" not in result.output, result.output
    return result


START_OF_RESPONSE = b'{"data":['
MEBIBYTE_OF_SPACES = b" " * 1024 * 1024
END_OF_RESPONSE = b"]}"


def long_response(mebibytes: int) -> bytes:
    return START_OF_RESPONSE + MEBIBYTE_OF_SPACES * mebibytes + END_OF_RESPONSE


def gzip_of_long_response(mebibytes: int) -> bytes:
    """Return the same as `gzip.compress` of a long response, but compress a mebibyte of it only once."""
    packer = zlib.compressobj(level=1, wbits=-zlib.MAX_WBITS)
    # After a full flush, what follows refers to nothing before it, so it can be repeated.
    start = packer.compress(START_OF_RESPONSE) + packer.flush(zlib.Z_FULL_FLUSH)
    repeated = packer.compress(MEBIBYTE_OF_SPACES) + packer.flush(zlib.Z_FULL_FLUSH)
    end = packer.compress(END_OF_RESPONSE) + packer.flush()
    checksum = zlib.crc32(START_OF_RESPONSE)
    for _ in range(mebibytes):
        checksum = zlib.crc32(MEBIBYTE_OF_SPACES, checksum)
    checksum = zlib.crc32(END_OF_RESPONSE, checksum)
    size = len(START_OF_RESPONSE) + len(MEBIBYTE_OF_SPACES) * mebibytes + len(END_OF_RESPONSE)
    header = b"\x1f\x8b\x08" + bytes(7)
    return header + start + repeated * mebibytes + end + checksum.to_bytes(4, "little") + size.to_bytes(4, "little")


def test_the_long_response_is_valid_gzip() -> None:
    assert gzip.decompress(gzip_of_long_response(2)) == long_response(2)


@pytest.mark.parametrize("path", ["usage", "changes", "members"])
def test_deeply_nested_json_is_reported_in_a_plain_sentence(path: str) -> None:
    nested = b"[" * 100_000 + b"]" * 100_000
    body = b'{"data":' + nested + b',"serverTime":"' + NOW.encode() + b'","mark":"m"}'
    with service(**{path: body}) as url:
        result = run("pull", url)
    assert result.exit_code == 1
    assert "Counterfoil API" in result.output


@pytest.mark.parametrize(
    ("path", "encoding", "make"),
    [
        pytest.param("usage", "gzip", lambda: gzip_of_long_response(200), id="gzip"),
        pytest.param("changes", "zstd", lambda: zstd.compress(long_response(200)), marks=pytest.mark.long, id="zstd"),
        pytest.param("members", "identity", lambda: long_response(40), marks=pytest.mark.long, id="plain"),
    ],
)
def test_a_response_that_is_larger_than_any_page_is_refused_with_little_memory(
    path: str, encoding: str, make: Callable[[], bytes]
) -> None:
    body = make()
    with service(**{path: lambda: (200, {"content-encoding": encoding}, body)}) as url:
        done = subprocess.run(
            [sys.executable, "-c", _MEASURED, "pull", "--url", url, "--to", "copy.sqlite"],
            capture_output=True,
            text=True,
            check=False,
        )
    assert "larger than 16 MiB" in done.stderr
    assert int(done.stdout.split()[-1]) < 250_000, done.stdout
    assert done.stdout.split()[-2] == "1"


_MEASURED = """
import sys
from pathlib import Path
from counterfoil.program.main import program
try:
    program.main(sys.argv[1:], prog_name="counterfoil")
except SystemExit as end:
    print(end.code, Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""


@contextmanager
def raw_sender(head: bytes, repeated: bytes, pause_sec: float = 0) -> Iterator[str]:
    """Run a service that sends each connection `head`, and then the same bytes until the client hangs up."""
    pause = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    peer = listener.accept()[0]
                except OSError:
                    return
                with peer, suppress(OSError):
                    peer.recv(65_536)
                    peer.sendall(HEAD + head)
                    while not pause.wait(pause_sec):
                        peer.sendall(repeated)

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/ext/v1"
        finally:
            listener.shutdown(socket.SHUT_RDWR)


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
CHUNK = b"10000\r\n" + b" " * 65_536 + b"\r\n"


# A frame that never ends, and that becomes 128 KiB with every 4 bytes.
ZSTD_FRAME, ZSTD_BLOCKS = b"\x28\xb5\x2f\xfd\x00\x58", b"\x02\x00\x10 " * 4_096


@pytest.mark.parametrize(
    ("head", "repeated"),
    [
        (b"transfer-encoding: chunked\r\n\r\n", CHUNK),
        (b"\r\n", CHUNK),
        (b"content-encoding: zstd\r\n\r\n" + ZSTD_FRAME, ZSTD_BLOCKS),
    ],
    ids=["chunks", "until the connection is closed", "zstd"],
)
def test_an_endless_body_is_not_read_to_its_end(head: bytes, repeated: bytes) -> None:
    with raw_sender(head, repeated) as url, pytest.raises(ResponseTooLarge, match="larger than 16 MiB"):
        call(url)


@pytest.mark.parametrize("head", [b"content-length: 100000\r\n\r\n", b"x: "], ids=["body", "head"])
def test_a_response_that_trickles_ends_after_some_timeouts(head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterfoil.client.connection.MAX_TRIES", 1)
    monkeypatch.setattr("counterfoil.client.connection.TIMEOUTS_PER_RESPONSE", 0.01)
    # A byte arrives whenever the client is about to stop waiting for one.
    with raw_sender(head, b"x", 0.02) as url, pytest.raises(Unreachable, match=r"not complete after 0\.1 seconds"):
        call(url)


def test_a_response_that_trickles_ends_even_if_its_time_was_over_before_a_connection_was_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("counterfoil.client.connection.MAX_TRIES", 1)
    monkeypatch.setattr("counterfoil.client.connection.TIMEOUTS_PER_RESPONSE", 0)
    with (
        raw_sender(b"content-length: 100000\r\n\r\n", b"x", 0.02) as url,
        pytest.raises(Unreachable, match="not complete"),
    ):
        call(url)


def call(url: str) -> None:
    with Client(url, "k", per_min=1_000, timeout_sec=10.0, sleep=lambda _: None) as client:
        client.shops()


def test_a_page_of_large_records_is_read_with_a_smaller_limit() -> None:
    """A page of 200 such records has more than 16 MiB, but a page of 25 has not."""
    asked: list[str] = []

    def answer(path: str, headers: Mapping[str, str]) -> Answer:
        limit = parse_qs(urlsplit(path).query)["limit"][0]
        asked.append(limit)
        rows = [{"memberId": f"m{number}", "x": "x" * 100_000} for number in range(int(limit))]
        return 200, {}, json.dumps(page(*rows)).encode()

    with scripted_service(answer) as url, Client(url, "k", per_min=1_000) as client:
        assert len(list(client.members("p"))) == 25
    assert asked == ["200", "25"]


# --- a service whose responses have another form -------------------------------------

ODD_TEXTS = ["", "x", "\u0000", "\x1b[2J", "x" * 10_000]
ODD_NUMBERS_AND_TIMES = [
    0,
    -1,
    10**30,
    1e308,
    "NaN",
    "1e999999999",
    "2026-02-31T99:00:00Z",
    "9999-12-31T23:59:59+14:00",
]
ODD: list[Any] = [None, True, [], {}, [[]], [None], {"a": None}, *ODD_TEXTS, *ODD_NUMBERS_AND_TIMES]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value inside a body."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in inner:
        yield from places(part, (*path, name))


def replaced(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    if not path:
        return odd
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[path[0]] = replaced(value[path[0]], path[1:], odd)
    return changed


def odd_bodies(route_name: str) -> list[bytes]:
    bodies = [
        json.dumps(replaced(HONEST[route_name], path, odd)).encode()
        for path in places(HONEST[route_name])
        for odd in ODD
    ]
    return [*bodies, b"", b"\xff", b"NaN", b'{"data": NaN}', b"<html>", b'{"data": [' + b"9" * 20_000 + b"]}"]


@pytest.mark.parametrize("count", [2, pytest.param(10_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("route_name", HONEST)
def test_a_response_of_another_form_damages_no_copy(route_name: str, count: int) -> None:
    """Values of a response are replaced by odd ones. The command says so, and the next honest pull repairs all."""
    bodies = odd_bodies(route_name)
    random.Random(26).shuffle(bodies)  # noqa: S311 - the same bodies every time
    lie: list[bytes] = []
    command = "reconcile" if route_name in ("digests", "transactions") else "pull"

    def answer(path: str, headers: Mapping[str, str]) -> Answer:
        is_lie = bool(lie) and route(path) == route_name
        return 200, {}, lie[0] if is_lie else json.dumps(HONEST[route(path)]).encode()

    with scripted_service(answer) as url:
        assert run("pull", url).exit_code == 0
        before = copied()
        for body in bodies[:count]:
            lie[:] = [body]
            result = run(command, url)
            assert result.exit_code in (0, DIFFERENT) or "counterfoil: " in result.output, (body, result.output)
            lie.clear()
            assert run("pull", url).exit_code == 0, body
            assert copied() == before, body


def copied() -> dict[str, list[Any]]:
    """Return shops and bills, without the time at which they were written, which never decreases."""
    with closing(sqlite3.connect("copy.sqlite")) as database:
        return {
            table.name: database.execute(
                f"SELECT {column_names(table, without='copied_at')} FROM {table.name} ORDER BY 1, 2"  # noqa: S608
            ).fetchall()
            for table in (SHOPS, BILLS_TABLE)
        }


@pytest.mark.parametrize(
    ("status", "location"),
    [
        *[(status, "") for status in (204, 206, 304, 404, 418, 503)],
        *[(301, "/elsewhere"), (302, "file:///etc/passwd"), (307, "http://[")],
    ],
)
def test_an_unexpected_status_or_redirect_is_not_followed(status: int, location: str) -> None:
    headers = {"location": location, "content-type": "text/html", "set-cookie": "a=b"} if location else {}
    asked: list[str] = []

    def answer(path: str, _: Mapping[str, str]) -> Answer:
        asked.append(route(path))
        return status, headers, b"" if status in (204, 304) else b"<html>"

    with scripted_service(answer) as url:
        assert run("pull", url).exit_code in (1, 5)
    assert set(asked) == {"usage"}
