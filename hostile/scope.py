"""The scope matrix: every key requests every record, and may receive only the data that the source records allow.

A triple is a key, an endpoint and an ID: own, foreign, removed, unknown or
malformed. The marks and cursors of the change feed and of the digests are such IDs too.
The expected responses come from `world`, which does not use the service.
Members are recognised by their labels, bills by their receipt numbers.

Each key also reads the change feed and the digests to their end: see `passes`.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from msgspec import Struct, field, json

from hostile.checker import Checker
from hostile.fuzzing import tokens_of
from hostile.passes import CHANGES, DIGESTS, hash_faults, pass_faults, passes_of, read_pass, row_of
from hostile.raw_http import Answer, Line, ask, request
from hostile.targets import Attacked, key_id
from hostile.world import Expected, KeySpec, World, escaped

MALFORMED = ("", "%00", "%FF", "x" * 3_000, "'%20OR%201=1--", "%2e%2e", "*", "null", "sh-0-0%00", "SH-0-0", "sh-0-0%20")
# The number of triples sent on a connection before the responses are read, and the number of connections per node.
AT_ONCE = 12
MOST_CONNECTIONS = 3
MOST_FAULTS = 20
DAYS = "from=20260101&to=20260131&limit=200"
EVER = "updatedSince=2000-01-01T00:00:00Z&limit=200"
# The request that each kind of feed token is made for.
MARK, CURSOR, DIGEST_CURSOR = "mark", "cursor", "digest cursor"
USES = {
    MARK: "changes?limit=1000&since={}",
    CURSOR: "changes?limit=1000&cursor={}",
    DIGEST_CURSOR: "digests?limit=1000&cursor={}",
}


class FeedToken(Struct, frozen=True):
    """A mark or cursor that the service gave to the key `owner`, or to its twin: another key with the same scope."""

    owner: KeySpec
    twin: bool
    kind: str
    text: str


class Triple(Struct, frozen=True):
    """A request and every response that the records allow."""

    key: KeySpec
    endpoint: str
    target: str
    allowed: list[Expected]
    template: str


class Report(Struct):
    """The totals. A pass over the feed or the digests counts as a triple, however many pages it has."""

    triples: int = 0
    by_endpoint: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def issued(world: World, site: Attacked) -> dict[KeySpec, str]:
    """Issue all keys that the world specifies; return them, keyed by specification."""
    return {
        spec: site.issue(spec.kind, spec.scope_id, messaging_lookup=spec.lookup, personal_data=spec.personal)
        for spec in world.key_specs()
    }


def twins(keys: dict[KeySpec, str], site: Attacked) -> dict[KeySpec, str]:
    """Issue another key for each of these scopes. The two keys have different lineages."""
    return {spec: site.issue(spec.kind, spec.scope_id) for spec in keys}


class Known(Struct):
    """The ports, keys, member tokens and feed tokens that another process needs to build the same matrix."""

    ports: list[int]
    keys: dict[KeySpec, str]
    tokens: dict[str, str]
    feed_tokens: list[FeedToken]


class Matrix:
    """Sends a request for each triple of a world and compares the responses with the expected responses."""

    def __init__(
        self,
        world: World,
        ports: list[int],
        keys: dict[KeySpec, str],
        checker: Checker,
        tokens: dict[str, str] | None = None,
        feed_tokens: list[FeedToken] | None = None,
    ) -> None:
        self._world = world
        self._ports = ports
        self._keys = keys
        self._checker = checker
        self._tokens = tokens or {}
        self._feed_tokens = feed_tokens or []
        self._labels = {token: label for label, token in self._tokens.items()}
        self.report = Report()

    def learn_tokens(self) -> None:
        """Read every member's token with a key that can read the member, and every key's mark in the change feed.

        Call this between the first and the second load.
        """
        bases = {str(shop["providerId"]): shop_id for shop_id, shop in self._world.shops.items() if shop["providerId"]}
        for base, shop_id in bases.items():
            self._tokens |= tokens_of(self._ports[0], self._keys[self._key_of(shop_id)], base)
        self._labels = {token: label for label, token in self._tokens.items()}
        for spec, key in self._keys.items():
            self._learn(spec, key, "changes?limit=1000", MARK, "mark")

    def learn_cursors(self, twin_keys: dict[KeySpec, str]) -> None:
        """Read cursors of the change feed and the digests with every key, and marks and cursors with the twins."""
        for spec, key in self._keys.items():
            self._learn(spec, key, "changes?limit=1", CURSOR, "nextCursor")
            self._learn(spec, key, "digests?limit=1", DIGEST_CURSOR, "nextCursor")
        for spec, key in twin_keys.items():
            self._learn(spec, key, "changes?limit=1000", MARK, "mark", twin=True)
            self._learn(spec, key, "changes?limit=1", CURSOR, "nextCursor", twin=True)
            self._learn(spec, key, "digests?limit=1", DIGEST_CURSOR, "nextCursor", twin=True)

    def _learn(self, spec: KeySpec, key: str, target: str, kind: str, field_name: str, *, twin: bool = False) -> None:
        """Store a field of a response as a feed token, unless it is null: the last page has no `nextCursor`."""
        answer = ask(self._ports[0], f"/ext/v1/{target}", key)
        assert answer is not None
        text = json.decode(answer.body)[field_name]
        if text is not None:
            self._feed_tokens.append(FeedToken(spec, twin, kind, text))

    @property
    def known(self) -> Known:
        return Known(self._ports, self._keys, self._tokens, self._feed_tokens)

    def _key_of(self, shop_id: str) -> KeySpec:
        return next(spec for spec in self._keys if (spec.kind, spec.scope_id) == ("shop", shop_id))

    # --- questions ---------------------------------------------------------------------

    def triples(self) -> Iterator[Triple]:
        for spec in self._keys:
            yield from self.triples_of(spec)

    def triples_of(self, spec: KeySpec) -> Iterator[Triple]:
        world = self._world
        yield Triple(spec, "shops", "shops", [world.expected_shops(spec)], "/v1/shops")
        yield Triple(spec, "usage", "usage", [Expected(200)], "/v1/usage")
        for shop_id in [*world.shops, "sh-never-loaded", "fr-0", "mb-0"]:
            for mode in (DAYS, EVER):
                allowed = [world.expected_list(spec, shop_id, by_day=mode == DAYS)]
                yield Triple(spec, "lists", f"transactions?shopId={shop_id}&{mode}", allowed, "/v1/transactions")
            # One page is enough, because no shop has bills on more than 31 days.
            allowed = [world.expected_digests(spec, shop_id)]
            yield Triple(spec, "digests", f"digests?shopId={shop_id}&limit=1000", allowed, DIGESTS)
        for bill_id in sorted({bill_id for _, bill_id in [*world.bills, *world.removed_bills]}):
            allowed = world.expected_bill(spec, bill_id)
            yield Triple(spec, "bills", f"transactions/{escaped(bill_id)}", allowed, "/v1/transactions/{id}")
        bases = sorted({str(shop["providerId"]) for shop in world.shops.values() if shop["providerId"]})
        for base in [*bases, "mb-never-loaded", "sh-0-0"]:
            allowed = [world.expected_members(spec, base)]
            yield Triple(spec, "bases", f"members?providerId={base}&limit=200", allowed, "/v1/members")
        yield from self._member_triples(spec, bases)
        yield from self._feed_token_triples(spec)
        yield from self._malformed(spec)

    def _feed_token_triples(self, spec: KeySpec) -> Iterator[Triple]:
        """Yield triples whose mark or cursor must be refused.

        The mark or cursor belongs to another key, or is the key's own, but changed or in a wrong place.
        Passes use the key's own marks and cursors in the right place.
        """
        refused = [Expected(400, "bad_cursor")]
        for token in self._feed_tokens:
            own = token.owner == spec
            if own and not token.twin:
                for target in self._wrong_uses(token):
                    yield Triple(spec, "wrong tokens", target, refused, _template(target))
            elif own or not token.twin:
                # Only the twin with the same scope is needed: for other scopes, the keys themselves are enough.
                target = USES[token.kind].format(token.text)
                yield Triple(spec, "foreign tokens", target, refused, _template(target))

    def _wrong_uses(self, token: FeedToken) -> list[str]:
        """Return requests that must be refused even if the key that owns the token sends them."""
        wrong = [use.format(token.text) for kind, use in USES.items() if kind != token.kind]
        wrong.append(USES[token.kind].format(token.text[:-1] + ("B" if token.text.endswith("A") else "A")))
        if token.kind == DIGEST_CURSOR:
            wrong.append(f"digests?from=20260101&cursor={token.text}")
        if token.kind == CURSOR:
            wrong.append(f"changes?since={self._mark_of(token.owner)}&cursor={token.text}")
        return wrong

    def _mark_of(self, spec: KeySpec) -> str:
        (mark,) = [one.text for one in self._feed_tokens if (one.owner, one.twin, one.kind) == (spec, False, MARK)]
        return mark

    def _member_triples(self, spec: KeySpec, bases: list[str]) -> Iterator[Triple]:
        world = self._world
        ids = {member["labels"][0]: member_id for member_id, member in world.members.items()}
        for label, token in self._tokens.items():
            allowed = [world.expected_member(spec, ids.get(label))]
            yield Triple(spec, "members", f"members/{token}", allowed, "/v1/members/{memberToken}")
        for number, (member_id, member) in enumerate(world.members.items()):
            raw = Triple(
                spec, "raw ids", f"members/{member_id}", [Expected(404, "not_found")], "/v1/members/{memberToken}"
            )
            yield raw
            user_id = member["messaging"][0]["userId"]
            for base in sorted({str(member["providerId"]), bases[number % len(bases)]}):
                allowed = [world.expected_lookup(spec, base, user_id)]
                target = f"members/lookup?providerId={base}&messagingUserId={user_id}"
                yield Triple(spec, "lookup", target, allowed, "/v1/members/lookup")

    def _malformed(self, spec: KeySpec) -> Iterator[Triple]:
        """Yield triples whose ID is malformed. The error response must not reveal whether a record exists."""
        user_id = "U" + "0" * 32
        for text in MALFORMED:
            refused = [Expected(400, "bad_query"), Expected(403, "shop_not_in_scope")]
            yield Triple(spec, "malformed", f"transactions?shopId={text}&{DAYS}", refused, "/v1/transactions")
            yield Triple(spec, "malformed", f"digests?shopId={text}", refused, DIGESTS)
            refused = [Expected(400, "bad_query"), Expected(403, "provider_not_in_scope")]
            yield Triple(spec, "malformed", f"members?providerId={text}", refused, "/v1/members")
            refused = [*refused, Expected(403, "lookup_not_enabled")]
            target = f"members/lookup?providerId={text}&messagingUserId={user_id}"
            yield Triple(spec, "malformed", target, refused, "/v1/members/lookup")
            if text:
                target = f"transactions/{text}"
                yield Triple(spec, "malformed", target, [Expected(404, "not_found")], "/v1/transactions/{id}")

    # --- answers -----------------------------------------------------------------------

    def run(self, triples: Iterable[Triple]) -> Report:
        """Check these triples, several at a time, on each node in turn."""
        lines = [Line(port) for _ in range(MOST_CONNECTIONS) for port in self._ports]
        idle, waiting = deque(lines), deque[tuple[Line, list[Triple]]]()
        asked = iter(triples)
        while len(self.report.faults) < MOST_FAULTS and (batch := list(islice(asked, AT_ONCE))):
            if not idle:
                idle.append(self._read(*waiting.popleft()))
            line = idle.popleft()
            line.send(b"".join(request(f"/ext/v1/{one.target}", self._keys[one.key]) for one in batch))
            waiting.append((line, batch))
        for line, batch in waiting:
            self._read(line, batch)
        for line in lines:
            line.close()
        return self.report

    def run_passes(self, specs: Iterable[KeySpec]) -> Report:
        """Read the change feed and the digests to their end with these keys, and check the rows that they return."""
        lines = [Line(port) for port in self._ports]
        for spec in specs:
            feed: list[dict[str, Any]] = []
            for place, one in enumerate(passes_of(self._world, spec, self._mark_of(spec))):
                done = read_pass(lines, self._keys[spec], one.target, one.template, self._checker)
                found = pass_faults(one, done)
                if place == 0:
                    feed = done.elements
                elif one.target.startswith("digests?limit"):
                    found += hash_faults(feed, done.elements)
                self.report.triples += 1
                for name, number in ("passes", 1), ("pages of passes", done.pages):
                    self.report.by_endpoint[name] = self.report.by_endpoint.get(name, 0) + number
                self.report.faults += [f"{spec} {one.target}: {what}" for what in found]
        for line in lines:
            line.close()
        return self.report

    def _read(self, line: Line, batch: list[Triple]) -> Line:
        """Read and compare the responses to these triples; return the connection, which is idle again."""
        for one in batch:
            answer = line.answer()
            assert answer is not None, "the connection was closed"
            self._compare(one, answer)
        return line

    def _compare(self, triple: Triple, answer: Answer) -> None:
        self.report.triples += 1
        self.report.by_endpoint[triple.endpoint] = self.report.by_endpoint.get(triple.endpoint, 0) + 1
        found = self._checker.faults(answer, triple.template)
        body = json.decode(answer.body)
        if triple.endpoint == "usage":
            found += self._usage_faults(triple.key, body)
        else:
            seen = Expected(answer.status, body.get("error"), self._rows(triple, body))
            if seen not in triple.allowed:
                found.append(f"expected {triple.allowed}, got {seen}")
        if not triple.key.personal and (b'"tel"' in answer.body or b'"email"' in answer.body):
            found.append("personal data for a key without the permission")
        self.report.faults += [f"{triple.key} {triple.target}: {what}" for what in found]

    def _usage_faults(self, spec: KeySpec, body: dict[str, Any]) -> list[str]:
        own = (key_id(self._keys[spec]), spec.kind)
        seen = (body["data"]["keyId"], body["data"]["scope"])
        return [] if seen == own else [f"the usage of {seen} instead of {own}"]

    def _rows(self, triple: Triple, body: dict[str, Any]) -> frozenset[str]:
        data = body.get("data")
        if data is None:
            return frozenset()
        rows = data if isinstance(data, list) else [data]
        match triple.endpoint:
            case "shops":
                return frozenset(str(row["shopName"]) for row in rows)
            case "bases" | "members" | "raw ids":
                return frozenset(str(row["labels"][0]) for row in rows)
            case "digests":
                return frozenset(row_of(DIGESTS, row) for row in rows)
            case "lookup":
                return frozenset(self._labels.get(str(row["memberId"]), "unknown token") for row in rows)
            case _:
                return frozenset(str(row.get("receiptNumber", row)) for row in rows)


def _template(target: str) -> str:
    return CHANGES if target.startswith("changes") else DIGESTS
