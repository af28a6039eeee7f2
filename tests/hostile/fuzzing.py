"""Sends the requests that `mutations` generates and checks every answer.

Proper requests are pipelined on persistent connections: each must be answered,
in order, under its own request ID. Each broken request gets its own connection.
"""

import json
import re
import time
from random import Random

from msgspec import Struct, field

from hostile.checker import Checker
from hostile.mutations import Case, Generator
from hostile.raw_http import Answer, Line, Malformed

# At most this many proper requests, and this many bytes, are sent before the answers are read.
MOST_AT_ONCE = 16
MOST_BYTES = 40_000
# The server may wait for the rest of a broken request, so we wait only this long for an answer.
QUIET_SEC = 0.03
# A run stops after this many faults, because people look only at the first ones.
MOST_FAULTS = 20


class Fault(Struct, frozen=True):
    """A wrong answer, and the request that reproduces it."""

    what: str
    seed: int
    number: int
    data: bytes

    def __str__(self) -> str:
        sent = self.data if len(self.data) < 1_000 else self.data[:500] + b"..." + self.data[-400:]
        again = f"python -m hostile requests --seed {self.seed} --only {self.number}"
        return f"{self.what}\n  request: {sent!r}\n  again: {again}"


class Report(Struct):
    requests: int = 0
    answers: int = 0
    hung_up: int = 0
    by_status: dict[int, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)


class Fuzzer:
    """Sends numbered cases to one port. `foreign` matches data that no answer to these keys may contain."""

    def __init__(self, port: int, generator: Generator, checker: Checker, foreign: re.Pattern[bytes]) -> None:
        self._port = port
        self._generator = generator
        self._checker = checker
        self._foreign = foreign
        self._line: Line | None = None
        self.report = Report(by_status=checker.by_status)

    def run(self, numbers: range) -> Report:
        waiting: list[Case] = []
        broken: list[Case] = []
        # The number of requests sent at once varies, but is the same in every run with this seed.
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
            if len(waiting) >= most or sum(len(one.data) for one in waiting) > MOST_BYTES:
                self._send_pipelined(waiting)
                waiting, most = [], random.randint(1, MOST_AT_ONCE)
        if waiting:
            self._send_pipelined(waiting)
        self._send_broken(broken)
        self._hang_up()
        self.report.answers = self._checker.checked
        return self.report

    def _send_pipelined(self, cases: list[Case]) -> None:
        if self._line is None:
            self._line = Line(self._port)
        case = cases[0]
        try:
            self._line.send(b"".join(one.data for one in cases))
            for case in cases:
                answer = self._line.answer(case.method)
                if answer is not None and answer.status == 100:
                    answer = self._line.answer(case.method)
                if answer is None:
                    self._report("the connection was closed without an answer", case)
                    self._hang_up()
                    return
                self._check(answer, case, case.request_id)
                if answer.header("connection") == "close":
                    self._hang_up()
                    return
        except (Malformed, OSError) as error:
            self._report(f"{type(error).__name__}: {error}", case)
            self._hang_up()

    def _send_broken(self, cases: list[Case]) -> None:
        """Send all cases at once, each on its own connection; then read the answers."""
        lines = []
        for case in cases:
            lines.append(Line(self._port))
            lines[-1].send(case.data)
        patience = time.monotonic() + QUIET_SEC
        for case, line in zip(cases, lines, strict=True):
            try:
                # However the bytes are parsed, there cannot be more answers than requests. Smuggling would break this.
                most = max(1, case.data.count(b"HTTP/1."))
                with line:
                    answers = line.until_silent(max(0.002, patience - time.monotonic()), 2 * most + 1)
            except (Malformed, OSError) as error:
                self._report(f"{type(error).__name__}: {error}", case)
                continue
            answers = [answer for answer in answers if answer.status != 100]
            self.report.hung_up += not answers
            if len([answer for answer in answers if answer.header("x-request-id")]) > most:
                self._report(f"more than {most} answers of the service", case)
            for answer in answers:
                self._check(answer, case, None)

    def _check(self, answer: Answer, case: Case, request_id: str | None) -> None:
        for what in self._checker.faults(answer, case.template, case.method, request_id):
            self._report(what, case)
        if answer.status == 200 and self._foreign.search(answer.body):
            self._report("the answer contains data of another key's scope", case)

    def _report(self, what: str, case: Case) -> None:
        self.report.faults.append(Fault(what, self._generator.seed, case.number, case.data))

    def _hang_up(self) -> None:
        if self._line:
            self._line.close()
            self._line = None


def tokens_of(port: int, key: str, provider_id: str) -> dict[str, str]:
    """Return the member tokens of a base by label, as the service returns them."""
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
