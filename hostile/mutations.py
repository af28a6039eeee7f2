"""Requests that nobody should send, generated from a seed: the same seed and number always give the same bytes.

There are two kinds. A *well-formed* request is valid HTTP with strange content:
it must be answered as documented for its path. A *broken* request is a well-formed
request whose bytes were mutated: the HTTP server may also refuse it or disconnect.
"""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from msgspec import Struct

from hostile.checker import ANY_ROUTE, ROOT, Document

Item = TypeVar("Item")

# Every eighth request is broken. Broken requests take most of the time, because each needs its own connection.
BROKEN_EVERY = 8
HUGE = 50_000
# The HTTP server refuses a request head of more than 64 kB.
LARGEST_HEAD = 63_000

PATHS = (
    *("shops", "transactions", "transactions/{id}", "members", "members/lookup", "members/{id}", "usage"),
    # These two are twice as frequent as the others, because they have the most ways to be refused.
    *("changes", "digests") * 2,
    "openapi.json",
    "nowhere",
    "",
    "shops/",
    "transactions/",
    "members/",
)
PARAMETERS = (
    "shopId",
    "from",
    "to",
    "updatedSince",
    "limit",
    "cursor",
    "since",
    "providerId",
    "messagingUserId",
    "x",
    "__proto__",
)
# Half of the requests for these paths have no other parameters, because most combinations with others are refused.
OWN_PARAMETERS = {"changes": ("since", "limit", "cursor"), "digests": ("shopId", "from", "to", "limit", "cursor")}
LIMITS = ("1", "2", "7", "1000", "1001", "0", "x")
TOKEN_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
ODD_VALUES = (
    "",
    "0",
    "-1",
    "1.9",
    "200",
    "201",
    "9" * 400,
    "1e5",
    "0x10",
    "NaN",
    "%00",
    "%FF%FE",
    "%C0%AF",
    "%ED%A0%80",
    "%F4%90%80%80",
    "%EF%BC%91%EF%BC%90",
    "%D9%A1%D9%A2",
    "%2F",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e/",
    "./.",
    "%",
    "%zz",
    "+",
    "a%20b",
    "'%20OR%20'1'='1",
    "%22%3E%3Cscript%3E",
    "$%7Bjndi:ldap://x%7D",
    "%0d%0aSet-Cookie:%20a=b",
    "null",
    "true",
    "[]",
    "20260101",
    "20260131",
    "20260230",
    "00000101",
    "99991231",
    "2026-01-01T00:00:00Z",
    "2026-01-01T00:00:00",
    "2026-01-01T00:00:00+07:00",
    "9999-12-31T23:59:59.999999999Z",
    "0001-01-01T00:00:00%2B14:00",
    "m1_",
    "m1_" + "A" * 32,
    "U" + "0" * 32,
    "U" + "G" * 32,
    "x" * HUGE,
    "%F0%9F%8D%9C",
)
ODD_HEADERS = (
    b"Accept-Encoding: gzip",
    b"Accept-Encoding: zstd, gzip;q=0.5",
    b"Accept-Encoding: identity;q=0, *;q=0.001",
    b"Accept-Encoding: \xff\xfe",
    b"Accept: text/html",
    b"If-None-Match: *",
    b'If-None-Match: W/"0", "1"',
    b"If-None-Match: \xff",
    b"If-Modified-Since: Thu, 01 Jan 2099 00:00:00 GMT",
    b"Range: bytes=0-1",
    b"Expect: 100-continue",
    b"Upgrade: websocket",
    b"Upgrade: h2c",
    b"TE: trailers",
    b"Cookie: a=b",
    b"Content-Length: 0",
    b"X-Forwarded-For: 127.0.0.1",
    b"X-Forwarded-Host: elsewhere.example",
    b"X-HTTP-Method-Override: DELETE",
    b"X-Original-URL: /ext/v1/usage",
    b"Forwarded: for=127.0.0.1",
    b"User-Agent: " + b"x" * 5_000,
    b"X-Empty:",
    b"X-Odd: \xe0\xb8\x81",
    b"Max-Forwards: 0",
)
BROWSER_HEADERS = (
    b"Origin: https://elsewhere.example",
    b"Origin: null",
    b"Sec-Fetch-Site: cross-site",
    b"Sec-Fetch-Site: same-site",
    b"Access-Control-Request-Method: GET",
)
METHODS = ("GET",) * 40 + ("HEAD",) * 4 + ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "get", "BREW")
ODD_BYTES = (
    b"\x00",
    b"\r",
    b"\n",
    b"\r\n",
    b"\r\n\r\n",
    b" ",
    b"\t",
    b":",
    b"\xff",
    b"%",
    b"\r\n folded",
    b"\x7f",
    b"HTTP/1.1",
)


class Stock(Struct, frozen=True):
    """The valid and invalid keys, the IDs, and the marks and cursors that the generator puts into requests.

    Some of the marks and cursors belong to a key of another franchise.
    """

    keys: list[str]
    bad_keys: list[str]
    shop_ids: list[str]
    bill_ids: list[str]
    provider_ids: list[str]
    tokens: list[str]
    marks: list[str]
    feed_cursors: list[str]
    digest_cursors: list[str]


class Case(Struct, frozen=True):
    """One request in the campaign."""

    number: int
    data: bytes
    method: str
    template: str
    request_id: str
    broken: bool


class Generator:
    """Generates cases from a seed."""

    def __init__(self, seed: int, stock: Stock, document: Document) -> None:
        self.seed = seed
        self._stock = stock
        self._document = document
        self._values: dict[str, Sequence[str]] = {
            "shopId": stock.shop_ids,
            "providerId": stock.provider_ids,
            "cursor": stock.bill_ids,
            "since": stock.marks,
            "from": ["20260101"],
            "to": ["20260131"],
        }
        cursors = {"changes": stock.feed_cursors, "digests": stock.digest_cursors}
        self._own_values = {path: self._values | {"limit": LIMITS, "cursor": cursors[path]} for path in OWN_PARAMETERS}
        self._authorizations = [b"Authorization: Bearer " + key.encode() for key in stock.keys]
        self._bad_authorizations = [b"Authorization: Bearer " + key.encode() for key in stock.bad_keys]

    @property
    def a_key(self) -> str:
        return self._stock.keys[0]

    def case(self, number: int) -> Case:
        random = Random(self.seed << 40 | number)  # noqa: S311 - reproducible, not secret
        broken = number % BROKEN_EVERY == 0
        method = "GET" if broken else _one_of(random, METHODS)
        target, path = self._target(random)
        request_id = f"h{self.seed}.{number}"
        lines = [f"{method} {target} HTTP/1.1".encode(), b"Host: counterfoil", *self._authorization(random)]
        lines.append(b"X-Request-Id: " + request_id.encode())
        lines += [_one_of(random, ODD_HEADERS) for _ in range(_one_of(random, (0, 0, 1, 2, 5)))]
        if random.random() < 0.05:
            lines.append(_one_of(random, BROWSER_HEADERS))
        if not broken and sum(map(len, lines)) > LARGEST_HEAD:
            # The HTTP server refuses a larger head. The request without the additional headers is small enough.
            lines = lines[: lines.index(b"X-Request-Id: " + request_id.encode()) + 1]
        if broken:
            lines.append(b"Connection: close")
        data = b"\r\n".join(lines) + b"\r\n\r\n"
        if broken:
            return Case(number, self._mutated(random, data), method, ANY_ROUTE, request_id, broken)
        return Case(number, data, method, self._document.template(path), request_id, broken)

    def _target(self, random: Random) -> tuple[str, str]:
        """Return a request target, and the path without the query string."""
        path = _one_of(random, PATHS)
        if path.endswith("{id}"):
            named = self._stock.bill_ids if path.startswith("transactions") else self._stock.tokens
            chosen = _one_of(random, named if random.random() < 0.5 else ODD_VALUES)
            path = path.removesuffix("{id}") + chosen
        if path in OWN_PARAMETERS and random.random() < 0.5:
            pairs = self._own_pairs(random, path)
        else:
            pairs = [self._pair(random) for _ in range(_one_of(random, (0, 1, 2, 3, 3, 4, 6, 40)))]
        path = f"{ROOT}/v1/{path}"
        # The whole head must stay below the maximum size, or the HTTP server refuses it.
        if not pairs or len(path) + sum(map(len, pairs)) + len(pairs) >= HUGE + 2_000:
            return path, path
        return path + "?" + "&".join(pairs), path

    def _pair(self, random: Random) -> str:
        name = _one_of(random, PARAMETERS)
        known = self._values.get(name)
        value = _one_of(random, known if known and random.random() < 0.6 else ODD_VALUES)
        form = int(random.random() * 12)
        match form:
            case 8:
                return name
            case 9:
                return f"={value}"
            case 10:
                return f"{name}[]={value}"
            case 11:
                return f"{name}={value};{name}=x"
            case _:
                return f"{name}={value}"

    def _own_pairs(self, random: Random, path: str) -> list[str]:
        """Return some of the parameters of the change feed or the digests. Some marks and cursors are tampered with."""
        pairs = []
        for name in OWN_PARAMETERS[path]:
            if random.random() < 0.4:
                value = _one_of(random, self._own_values[path][name] if random.random() < 0.9 else ODD_VALUES)
                if name in ("since", "cursor") and random.random() < 0.4:
                    value = _tampered(random, value)
                pairs.append(f"{name}={value}")
        return pairs

    def _authorization(self, random: Random) -> list[bytes]:
        chance = random.random()
        if chance < 0.8:
            return [_one_of(random, self._authorizations)]
        if chance < 0.9:
            return [_one_of(random, self._bad_authorizations)]
        odd = (b"Basic YTpi", b"Bearer", b"Bearer  ", b"bearer x", b"\xff\xfe", b"Bearer " + b"x" * 9_000, b"")
        return [b"Authorization: " + _one_of(random, odd)] if chance < 0.98 else []

    @staticmethod
    def _mutated(random: Random, data: bytes) -> bytes:
        for _ in range(random.choice((1, 1, 2, 4))):
            place = random.randrange(len(data))
            end = min(len(data), place + random.choice((1, 2, 8, 60)))
            match random.randrange(6):
                case 0:
                    data = data[:place] + bytes([random.randrange(256)]) + data[place + 1 :]
                case 1:
                    data = data[:place] + random.choice(ODD_BYTES) + data[place:]
                case 2:
                    data = data[:place] + data[end:]
                case 3:
                    data = data[:end] + data[place:end] * random.choice((1, 2, 50)) + data[end:]
                case 4:
                    data = data[: place or 1]
                case _:
                    other = random.choice(ODD_HEADERS + BROWSER_HEADERS)
                    data = data[:place] + b"\r\n" + other + b"\r\n" + data[place:]
            data = data or b"\r\n"
        return data


def _tampered(random: Random, token: str) -> str:
    """Return a mark or cursor with a random change. One of the possible changes only percent-encodes a character."""
    place = int(random.random() * len(token)) if token else 0
    letter = _one_of(random, TOKEN_LETTERS)
    match int(random.random() * 8):
        case 0:
            return token[:place] + letter + token[place + 1 :]
        case 1:
            return token[:place] + letter + token[place:]
        case 2:
            return token[:place] + token[place + 1 :]
        case 3:
            return token[:place]
        case 4:
            return token + _one_of(random, ("=", "==", "%3D", "A", "%00", "%0A", "+"))
        case 5:
            return token.swapcase()
        case 6:
            return token[place:] + token[:place]
        case _:
            return f"{token[:place]}%{ord(token[place]):02X}{token[place + 1 :]}" if token.isascii() and token else "%"


def _one_of(random: Random, among: Sequence[Item]) -> Item:
    """Return a random element. `Random.choice` takes three times as long, and a request needs about 30 choices."""
    return among[int(random.random() * len(among))]
