"""Known attacks on HTTP framing, each with the statuses that are allowed.

A request that is hidden in the body of another request has the request ID `smuggled`.
A response with this ID shows that the server has treated part of a body as a request.
"""

from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from hostile.checker import ANY_ROUTE, Checker
from hostile.raw_http import Answer, Line, Malformed, request

SHOPS = b"/ext/v1/shops"
SMUGGLED = "smuggled"
KB = 1024
# If nothing has arrived for this long, the connection is half-closed and the remaining responses are read.
QUIET_SEC = 0.25

# The allowed status 0 means that the HTTP server, not the service, refused the request (see REFUSALS in checker.py) or
# closed the connection. Any other allowed status is the status of the first response from the service.
REFUSED = frozenset({0})


class Attack(Struct, frozen=True):
    """The bytes to send on one connection, the allowed statuses, and how many responses the service may send."""

    name: str
    data: bytes
    allowed: frozenset[int] = REFUSED
    most: int = 1


def attacks(key: str) -> list[Attack]:
    """Return all attacks. They use a valid key, so that none is refused because its key is unknown."""
    bearer = b"Authorization: Bearer " + key.encode()
    hidden = request(SHOPS, key, b"X-Request-Id: smuggled")
    good = frozenset({200})
    either = frozenset({0, 200})

    def head(*lines: bytes, target: bytes = SHOPS, method: bytes = b"GET", version: bytes = b"HTTP/1.1") -> bytes:
        return b"\r\n".join([b" ".join((method, target, version)), b"Host: counterfoil", bearer, *lines]) + b"\r\n\r\n"

    def sized(length: int) -> bytes:
        return b"Content-Length: %d" % length

    chunked = b"Transfer-Encoding: chunked"
    return [
        Attack("length and chunks, ends by chunks", head(sized(6), chunked) + b"0\r\n\r\n" + hidden, either),
        Attack(
            "length and chunks, ends by length", head(sized(len(hidden) + 5), chunked) + b"0\r\n\r\n" + hidden, either
        ),
        Attack("chunks, then a length", head(chunked, sized(3)) + b"0\r\n\r\n" + hidden, either),
        Attack("chunks named twice", head(chunked, chunked) + b"0\r\n\r\n" + hidden, either, 2),
        Attack("chunks under an unknown coding", head(b"Transfer-Encoding: xchunked") + b"0\r\n\r\n" + hidden),
        Attack("chunked not last", head(b"Transfer-Encoding: chunked, identity") + b"0\r\n\r\n" + hidden),
        Attack("chunked with a space before the colon", head(b"Transfer-Encoding : chunked") + b"0\r\n\r\n" + hidden),
        Attack("chunked after a tab", head(b"Transfer-Encoding:\tchunked", sized(5)) + b"0\r\n\r\n" + hidden, either),
        Attack("chunked with a vertical tab", head(b"Transfer-Encoding: \x0bchunked") + b"0\r\n\r\n" + hidden),
        Attack("chunked by an old client", head(chunked, version=b"HTTP/1.0") + b"0\r\n\r\n" + hidden, either),
        Attack("two lengths that differ", head(sized(0), sized(len(hidden))) + hidden),
        Attack("two lengths in one header", head(b"Content-Length: 0, %d" % len(hidden)) + hidden),
        Attack("a length with a sign", head(b"Content-Length: +0") + hidden),
        Attack("a negative length", head(b"Content-Length: -1") + hidden),
        Attack("a length in other digits", head("Content-Length: ٥".encode()) + hidden),
        Attack("a hexadecimal length", head(b"Content-Length: 0x0") + hidden),
        Attack("a length beyond 64 bits", head(b"Content-Length: 18446744073709551616") + hidden),
        Attack("an empty length", head(b"Content-Length:") + hidden),
        Attack("a body that holds a request", head(sized(len(hidden))) + hidden, good),
        Attack("a chunk that holds a request", head(chunked) + b"%x\r\n%b\r\n0\r\n\r\n" % (len(hidden), hidden), good),
        Attack("a chunk size beyond 64 bits", head(chunked) + b"1%016x\r\n" % 0 + hidden, either),
        Attack("a chunk size that is not a number", head(chunked) + b"x\r\n" + hidden, either),
        Attack("a chunk extension of 100 kB", head(chunked) + b"0;" + b"x" * 100 * KB + b"\r\n\r\n", either),
        Attack("trailers of 100 kB", head(chunked) + b"0\r\nX-T: " + b"x" * 100 * KB + b"\r\n\r\n", either),
        Attack("a folded header", head(b"X-A: a\r\n b")),
        Attack("a folded first header", b"GET /ext/v1/shops HTTP/1.1\r\n Host: x\r\n\r\n"),
        Attack("a NUL in a header", head(b"X-A: a\x00b")),
        Attack("a NUL in the path", head(target=SHOPS + b"\x00")),
        Attack("a carriage return in a header", head(b"X-A: a\rX-Request-Id: smuggled")),
        Attack("a header without a name", head(b": a")),
        Attack("a header with a space in its name", head(b"X A: a")),
        Attack("lines that end in a bare LF", head().replace(b"\r\n", b"\n"), either),
        Attack("a bare CR at the end of lines", head().replace(b"\r\n", b"\r")),
        Attack("HTTP/0.9", b"GET /ext/v1/shops\r\n"),
        Attack("HTTP/0.9 with headers", b"GET /ext/v1/shops\r\n" + bearer + b"\r\n\r\n"),
        Attack("HTTP/1.0", head(version=b"HTTP/1.0"), good),
        Attack("HTTP/1.2", head(version=b"HTTP/1.2")),
        Attack("HTTP/2 in words", head(version=b"HTTP/2.0")),
        Attack("the HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        Attack(
            "an upgrade to HTTP/2",
            head(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABk"),
            good,
        ),
        Attack(
            "an upgrade to a web socket",
            head(
                b"Connection: Upgrade",
                b"Upgrade: websocket",
                b"Sec-WebSocket-Version: 13",
                b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
            ),
            good,
        ),
        Attack("absolute form", head(target=b"http://elsewhere.example/ext/v1/shops"), frozenset({0, 200, 400})),
        Attack("absolute form of another scheme", head(target=b"file:///etc/passwd"), frozenset({0, 400, 404})),
        Attack("CONNECT", head(target=b"elsewhere.example:443", method=b"CONNECT"), frozenset({0, 404, 405})),
        Attack("asterisk form", head(target=b"*", method=b"OPTIONS"), frozenset({0, 404, 405})),
        Attack("a path without a slash", head(target=b"ext/v1/shops"), frozenset({0, 404})),
        Attack("an encoded slash", head(target=b"/ext/v1%2Fshops"), frozenset({200, 404})),
        Attack("dot segments", head(target=b"/ext/v1/x/../shops"), frozenset({404})),
        Attack("encoded dot segments", head(target=b"/ext/v1/%2e%2e/v1/shops"), frozenset({404})),
        Attack("two slashes", head(target=b"//ext/v1/shops"), frozenset({0, 404})),
        Attack("an overlong slash", head(target=b"/ext/v1/transactions/%C0%AF"), frozenset({404})),
        Attack("a path of 100 kB", head(target=b"/ext/v1/" + b"x" * 100 * KB)),
        Attack("a parameter of 100 kB", head(target=SHOPS + b"?x=" + b"x" * 100 * KB)),
        Attack("a header of 256 kB", head(b"X-A: " + b"x" * 256 * KB)),
        Attack("a thousand headers", head(*[b"X-%d: y" % number for number in range(1000)])),
        Attack("a header that never ends", head()[:-2] + b"X-A: " + b"x" * 2000),
        Attack("ten thousand parameters", head(target=SHOPS + b"?" + b"a=b&" * 10_000), good),
        Attack(
            "a parameter a thousand times",
            head(target=b"/ext/v1/transactions?" + b"shopId=x&" * 1000),
            frozenset({400}),
        ),
        Attack("TLS on the plain port", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200)),
        Attack("nothing but line ends", b"\r\n" * 500),
        Attack("line ends before a request", b"\r\n\r\n" + head(), either),
        Attack("a request behind a request that closes", head(b"Connection: close") + hidden, good),
        Attack("no host", request(SHOPS, key, host=False), frozenset({400})),
        Attack("two hosts", head(b"Host: elsewhere.example"), frozenset({400})),
        Attack("two keys", head(bearer), frozenset({401})),
    ]


class Outcome(Struct, frozen=True):
    attack: str
    faults: list[str]
    seen: list[int]


def run(port: int, attack: Attack, checker: Checker) -> Outcome:
    """Run one attack; return the faults and the statuses received."""
    answers: list[Answer] = []
    found: list[str] = []
    try:
        with Line(port) as line:
            line.send(attack.data)
            answers = line.until_silent(QUIET_SEC, 10)
    except (Malformed, OSError) as error:
        found.append(f"{type(error).__name__}: {error}")
    by_service = [answer for answer in answers if answer.header("x-request-id") is not None]
    first = by_service[0].status if by_service else 0
    if first not in attack.allowed:
        found.append(f"answered {first}; allowed: {sorted(attack.allowed)}")
    if len(by_service) > attack.most:
        found.append(f"{len(by_service)} responses from the service; allowed: {attack.most}")
    if attack.most == 1 and any(answer.header("x-request-id") == SMUGGLED for answer in by_service):
        found.append("a hidden request was answered")
    for answer in answers:
        found += checker.faults(answer, ANY_ROUTE)
    return Outcome(attack.name, found, [answer.status for answer in answers])


def run_all(port: int, key: str, checker: Checker) -> list[Outcome]:
    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(lambda attack: run(port, attack, checker), attacks(key)))
