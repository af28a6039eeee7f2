"""Converts the bills of a load, in additional processes if the load is large and the machine has several cores.

The additional processes only save time: everything that they cannot convert is
left to the loader, which also checks that each bill was converted with the
current facts of its shop.
"""

import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle

from msgspec import Struct, msgpack

from counterfoil.domain.changes import KnownFacts
from counterfoil.domain.tokens import Pseudonyms
from counterfoil.ingest.conversion import BillConverter, ConvertedBill, ConvertedLines, converted_lines
from counterfoil.ingest.converter_connection import ConverterProcess, forked, spawned
from counterfoil.ingest.converter_process import ConverterAnswer, LinesToConvert
from counterfoil.ingest.lines import SourceLine

# Starting a process takes as long as converting a few thousand bills, so a small load starts none. A load that is
# known to have at least BYTES_TO_START_AT_ONCE starts its processes before it reads the first line.
LINES_BEFORE_START = 2_000
BYTES_TO_START_AT_ONCE = 4 * 1024 * 1024
# A message ends when it has this many bytes, or with the first line that is read after this time, so that lines from a
# slow source are not held back for long.
MESSAGE_BYTES = 256 * 1024
MESSAGE_SEC = 0.05
# The maximum number of unanswered messages per process, on average. They keep the processes busy while the loader
# writes a large batch.
MAX_WAITING = 16
MAX_KNOWN_SHOPS = 10_000

# Matches the ID of the shop in a line with a bill, unless the ID is written with escape sequences.
_SHOP_ID = re.compile(rb'"shopId" ?: ?"([^"\\]{1,512})"')

_encode = msgpack.Encoder().encode
_decode = msgpack.Decoder(ConverterAnswer).decode


def free_cores() -> int:
    """Return the number of cores for additional processes: all but one, which the loader uses."""
    has_affinity = hasattr(os, "sched_getaffinity")
    return max(0, (len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1) - 1)


@contextmanager
def running_converters(
    pseudonyms: Pseudonyms, processes: int, total_bytes: int | None
) -> Iterator[Sequence[ConverterProcess]]:
    """Start processes if the load is known to be large, yield them, and end them afterwards.

    Open the store inside the `with` block: see `forked`.
    """
    is_large = total_bytes is not None and total_bytes >= BYTES_TO_START_AT_ONCE
    running = forked(pseudonyms.secret, processes) if is_large else []
    try:
        yield running
    finally:
        for process in running:
            process.close()


class _Sent(Struct, gc=False):
    """Lines that were sent to a process, and the facts that it had then. Its answer refers to facts by index."""

    lines: list[SourceLine]
    facts: list[KnownFacts]
    process: ConverterProcess

    @property
    def is_done(self) -> bool:
        return self.process.has_answer()

    def converted(self) -> ConvertedLines | None:
        """Wait for the answer and return the result, or None if the process has ended without an answer."""
        answer = self.process.answer()
        return None if answer is None else _decode(answer).converted(self.lines, self.facts)


class _Done(Struct, gc=False):
    """Lines that the loader converted itself."""

    result: ConvertedLines
    process: None = None
    is_done: bool = True


class Converters:
    """Converts lines with at most `processes` additional processes. The results have the same order as the lines.

    A group of lines that are converted together has at most `most_lines` lines.
    If `running` contains processes, no others are started.
    """

    def __init__(
        self,
        pseudonyms: Pseudonyms,
        facts: Callable[[str], KnownFacts | None],
        processes: int,
        most_lines: int = 500,
        running: Sequence[ConverterProcess] = (),
    ) -> None:
        self._most_lines = most_lines
        self._pseudonyms = pseudonyms
        self._converter = BillConverter(pseudonyms, facts)
        self._facts_of = facts
        self._most = processes
        self._processes = list(running)
        self._facts: list[KnownFacts] = []
        self._numbers: dict[str, int] = {}

    def convert(self, lines: Iterable[SourceLine], total_bytes: int = 0) -> Iterator[ConvertedLines]:
        """Yield all lines, in groups, with the bills on them if the lines could be converted.

        `total_bytes` is the size of the source if it is known.
        """
        lines = iter(lines)
        try:
            if total_bytes >= BYTES_TO_START_AT_ONCE and not self._processes:
                self._start()
            yield from self._convert_here(lines)
            if self._processes:
                yield from self._convert_elsewhere(lines)
        finally:
            while self._processes:
                self._processes.pop().close()

    def learn(self, known: KnownFacts) -> None:
        """Use these facts for later bills of their shop."""
        number = self._numbers.get(known.facts.shop_id)
        if number is not None and self._facts[number] == known:
            return
        if len(self._facts) >= MAX_KNOWN_SHOPS:
            # Create a new list instead of clearing this one, because lines that are being converted still refer to it.
            self._facts, self._numbers = [], {}
            for process in self._processes:
                process.told = 0
        self._numbers[known.facts.shop_id] = len(self._facts)
        self._facts.append(known)

    def _convert_here(self, lines: Iterator[SourceLine]) -> Iterator[ConvertedLines]:
        """Convert lines in this process until the other processes are ready."""
        if self._are_ready():
            return
        count, has_started = 0, bool(self._processes)
        bills: list[ConvertedBill | None] = []
        for some in _messages(self._converted(lines, bills), min(self._most_lines, LINES_BEFORE_START)):
            group = converted_lines(some, bills)
            bills.clear()
            if self._most:
                for known in group.facts:
                    self.learn(known)
            yield group
            count += len(some)
            if count >= LINES_BEFORE_START and not has_started:
                has_started = True
                self._start()
            if self._are_ready():
                return

    def _are_ready(self) -> bool:
        """Return whether the processes are ready, and consume the answers that report this.

        Processes that have ended are removed, so the result is False if none is left.
        """
        if not all(process.has_answer() for process in self._processes):
            return False
        for process in list(self._processes):
            if process.answer() is None:
                self._processes.remove(process)
                process.close()
        return bool(self._processes)

    def _converted(self, lines: Iterator[SourceLine], bills: list[ConvertedBill | None]) -> Iterator[SourceLine]:
        """Yield the lines. Convert each of them when it is read, and add the result to `bills`."""
        for line in lines:
            bills.append(self._converter.convert_clean(line.text))
            yield line

    def _start(self) -> None:
        self._processes += spawned(self._pseudonyms.secret, self._most)

    def _convert_elsewhere(self, lines: Iterator[SourceLine]) -> Iterator[ConvertedLines]:
        waiting: deque[_Sent | _Done] = deque()
        turns = cycle(self._processes)
        unanswered, most = 0, MAX_WAITING * len(self._processes)
        for some in _messages(lines, self._most_lines):
            process = next(turns)
            if unanswered < most and not process.is_lost:
                waiting.append(self._sent(some, process))
                unanswered += 1
            else:
                # The processes have enough to do, or this one has ended, so convert these lines here.
                waiting.append(_Done(self._converted_here(some)))
            while waiting and (waiting[0].is_done or len(waiting) > 2 * most):
                unanswered -= waiting[0].process is not None
                yield self._result(waiting.popleft())
        while waiting:
            self._convert_last(waiting)
            yield self._result(waiting.popleft())

    def _result(self, group: _Sent | _Done) -> ConvertedLines:
        """Return the converted lines. If their process has ended, convert them here."""
        if isinstance(group, _Done):
            return group.result
        return group.converted() or self._converted_here(group.lines)

    def _convert_last(self, waiting: deque[_Sent | _Done]) -> None:
        """Convert lines here, the last ones first, until a process has converted the first ones.

        Each process answers its messages in order, so the answers for the last lines come last and need not be read.
        """
        for index in range(len(waiting) - 1, 0, -1):
            if waiting[0].is_done:
                return
            last = waiting[index]
            if isinstance(last, _Sent):
                waiting[index] = _Done(self._converted_here(last.lines))

    def _converted_here(self, lines: list[SourceLine]) -> ConvertedLines:
        return converted_lines(lines, [self._converter.convert_clean(line.text) for line in lines])

    def _sent(self, lines: list[SourceLine], process: ConverterProcess) -> _Sent:
        self._learn_shops(lines)
        facts = {number: self._facts[number] for number in range(process.told, len(self._facts))}
        forgets = process.told == 0
        process.told = len(self._facts)
        process.queues.send(_encode(LinesToConvert([line.text for line in lines], facts, forgets)))
        return _Sent(lines, self._facts, process)

    def _learn_shops(self, lines: list[SourceLine]) -> None:
        """Look up the facts of new shops, because a process cannot convert bills of a shop that it does not know.

        The lines are not decoded. If this misses a shop, its facts are learned when the loader reads one of its bills.
        """
        found = {match[1] for line in lines if (match := _SHOP_ID.search(line.text))}
        for shop_id in sorted(found):
            name = shop_id.decode("utf-8", "replace")
            if name not in self._numbers and (known := self._facts_of(name)):
                self.learn(known)


def _messages(lines: Iterator[SourceLine], most: int) -> Iterator[list[SourceLine]]:
    """Group lines into messages of at most `most` lines."""
    some: list[SourceLine] = []
    held, began = 0, time.monotonic()
    for line in lines:
        some.append(line)
        held += len(line.text)
        if held >= MESSAGE_BYTES or len(some) >= most or time.monotonic() - began > MESSAGE_SEC:
            yield some
            some, held, began = [], 0, time.monotonic()
    if some:
        yield some
