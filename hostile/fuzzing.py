"""Sends the requests that `mutations` generates and checks every response.

Well-formed requests are pipelined on persistent connections: each must be answered,
in order, with its own request ID. Each broken request gets its own connection.
"""

import json
import time
from collections import deque
from random import Random

from msgspec import Struct, field

from hostile.checker import Checker
from hostile.mutations import Case, Generator
from hostile.raw_http import Answer, Line, Malformed, ask

# Limits on the requests that are sent at once, the bytes that are pipelined on a connection before its responses are
# read, and the connections that wait for responses. They are high enough to keep the service busy.
MOST_AT_ONCE = 16
MOST_BYTES = 40_000
MOST_CONNECTIONS = 6
# The server may wait for the rest of a broken request. If there is no response after this time, the connection is
# half-closed.
QUIET_SEC = 0.03
# The server closes a connection that has been idle for this long. A connection can be idle that long if this process
# gets no processor time.
IDLE_SEC = 10.0
# A run stops after this many faults, because nobody reads more than the first few.
MOST_FAULTS = 20


class Fault(Struct, frozen=True):
    """A wrong response, and the request that reproduces it."""

    what: str
    seed: int
    number: int
    data: bytes

    def __str__(self) -> str:
        sent = self.data if len(self.data) < 1_000 else self.data[:500] + b"..." + self.data[-400:]
        again = f"python -m hostile requests --seed {self.seed} --only {self.number}"
        return f"{self.what}\n  request: {sent!r}\n  to reproduce: {again}"


class Report(Struct):
    requests: int = 0
    answers: int = 0
    hung_up: int = 0
    reconnected: int = 0
    by_status: dict[int, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)


class SentBroken(Struct):
    """Broken requests that were sent together, each on its own connection."""

    sent_at: float
    cases: list[Case]
    lines: list[Line]


class Fuzzer:
    """Sends numbered cases to one port."""

    def __init__(self, port: int, generator: Generator, checker: Checker) -> None:
        self._port = port
        self._generator = generator
        self._checker = checker
        self._idle: list[Line] = []
        self._pipelined: deque[tuple[Line, list[Case]]] = deque()
        self._broken: SentBroken | None = None
        self.report = Report(by_status=checker.by_status)

    def run(self, numbers: range) -> Report:
        waiting: list[Case] = []
        size = 0
        broken: list[Case] = []
        # How many requests are sent at once varies, but depends only on the seed and the number of the first request.
        random = Random(f"{self._generator.seed}:{numbers.start}")  # noqa: S311 - reproducible, not secret
        most = random.randint(1, MOST_AT_ONCE)
        for number in numbers:
            if len(self.report.faults) >= MOST_FAULTS:
                break
            case = self._generator.case(number)
            self.report.requests += 1
            if case.broken:
                broken.append(case)
                if len(broken) == MOST_AT_ONCE:
                    self._send_broken(broken)
                    broken = []
                continue
            waiting.append(case)
            size += len(case.data)
            if len(waiting) >= most or size > MOST_BYTES:
                self._send_pipelined(waiting)
                waiting, size, most = [], 0, random.randint(1, MOST_AT_ONCE)
        if waiting:
            self._send_pipelined(waiting)
        self._send_broken(broken)
        self._read_broken()
        while self._pipelined:
            self._read_pipelined(*self._pipelined.popleft())
        for line in self._idle:
            line.close()
        self._idle = []
        self.report.answers = self._checker.checked
        return self.report

    # --- well-formed requests -----------------------------------------------------------

    def _send_pipelined(self, cases: list[Case]) -> None:
        """Send these cases on one connection. If too many connections are waiting, first read from the oldest."""
        if len(self._pipelined) == MOST_CONNECTIONS:
            self._read_pipelined(*self._pipelined.popleft())
        line = self._idle.pop() if self._idle else Line(self._port)
        line.send(b"".join(one.data for one in cases))
        self._pipelined.append((line, cases))

    def _read_pipelined(self, line: Line, cases: list[Case]) -> None:
        case = cases[0]
        try:
            for case in cases:
                answer = line.answer(case.method)
                if answer is not None and answer.status == 100:
                    answer = line.answer(case.method)
                if answer is None:
                    line.close()
                    if case is cases[0] and line.idle_sec() >= IDLE_SEC:
                        self._resend(cases)
                    else:
                        self._report("the connection was closed without an answer", case)
                    return
                self._check(answer, case, case.request_id)
                if answer.header("connection") == "close":
                    line.close()
                    return
        except (Malformed, OSError) as error:
            self._report(f"{type(error).__name__}: {error}", case)
            line.close()
            return
        self._idle.append(line)

    def _resend(self, cases: list[Case]) -> None:
        """Send cases on a new connection, because the server has closed a connection that was idle for too long."""
        self.report.reconnected += 1
        line = Line(self._port)
        line.send(b"".join(one.data for one in cases))
        self._read_pipelined(line, cases)

    # --- broken requests ---------------------------------------------------------------

    def _send_broken(self, cases: list[Case]) -> None:
        """Send all cases, each on its own connection; then read the responses to the previous broken requests."""
        lines = []
        for case in cases:
            lines.append(Line(self._port))
            lines[-1].send(case.data)
        self._read_broken()
        self._broken = SentBroken(time.monotonic(), cases, lines)

    def _read_broken(self) -> None:
        """Read the responses to the broken requests sent last. Half-close connections that the server keeps open."""
        if self._broken is None:
            return
        sent, self._broken = self._broken, None
        patience = sent.sent_at + QUIET_SEC
        silent = []
        for case, line in zip(sent.cases, sent.lines, strict=True):
            # Without smuggling, there are at most as many responses as request lines, however the bytes are parsed.
            most = max(1, case.data.count(b"HTTP/1."))
            try:
                answers, closed = line.so_far(max(0.0, patience - time.monotonic()), 2 * most + 1)
            except (Malformed, OSError) as error:
                self._report_broken(error, case, line)
                line.close()
                continue
            if not closed:
                line.half_close()
            silent.append((case, line, most, answers, closed))
        for case, line, most, answers, closed in silent:
            with line:
                try:
                    rest = [] if closed else line.answers(2 * most + 1)
                except (Malformed, OSError) as error:
                    self._report_broken(error, case, line)
                    continue
            self._check_broken(case, most, [answer for answer in answers + rest if answer.status != 100])

    def _check_broken(self, case: Case, most: int, answers: list[Answer]) -> None:
        self.report.hung_up += not answers
        if len([answer for answer in answers if answer.header("x-request-id")]) > most:
            self._report(f"more than {most} responses from the service", case)
        for answer in answers:
            self._check(answer, case, None)

    def _check(self, answer: Answer, case: Case, request_id: str | None) -> None:
        for what in self._checker.faults(answer, case.template, case.method, request_id):
            self._report(what, case)

    def _report_broken(self, error: Exception, case: Case, line: Line) -> None:
        """Report an error, unless the server reset the connection.

        A server that closes a connection before it has read all bytes resets it, and
        so discards the end of a long response: see "Known limits" in docs/evidence/security.md.
        """
        if line.was_reset:
            self.report.hung_up += 1
        else:
            self._report(f"{type(error).__name__}: {error}", case)

    def _report(self, what: str, case: Case) -> None:
        self.report.faults.append(Fault(what, self._generator.seed, case.number, case.data))


class FeedTokens(Struct):
    """Marks and cursors that the service gave to some keys."""

    marks: list[str] = field(default_factory=list)
    feed_cursors: list[str] = field(default_factory=list)
    digest_cursors: list[str] = field(default_factory=list)


def feed_tokens_of(port: int, keys: list[str]) -> FeedTokens:
    """Read a mark of the change feed and cursors of the feed and of the digests with each key."""
    found = FeedTokens()
    for key in keys:
        found.marks.append(_field(port, key, "changes?limit=1000", "mark"))
        found.feed_cursors += [_field(port, key, f"changes?limit={limit}", "nextCursor") for limit in (1, 3)]
        found.digest_cursors += [_field(port, key, f"digests?limit={limit}", "nextCursor") for limit in (1, 3)]
    return found


def _field(port: int, key: str, target: str, name: str) -> str:
    answer = ask(port, f"/ext/v1/{target}", key)
    assert answer is not None
    return str(json.loads(answer.body)[name])


def tokens_of(port: int, key: str, provider_id: str) -> dict[str, str]:
    """Read all members of a base from the service; return their tokens, keyed by label."""
    found: dict[str, str] = {}
    cursor = ""
    with Line(port) as line:
        while True:
            target = f"/ext/v1/members?providerId={provider_id}&limit=200" + (f"&cursor={cursor}" if cursor else "")
            line.send(f"GET {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n".encode())
            answer = line.answer()
            assert answer is not None
            body = json.loads(answer.body)
            assert body["ok"], body
            found |= {member["labels"][0]: member["memberId"] for member in body["data"]}
            cursor = body["nextCursor"]
            if not cursor:
                return found
