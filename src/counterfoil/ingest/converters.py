"""Converts the bills of a load, in additional processes if the load is large and the machine has a free core.

The additional processes only save time: everything that they cannot convert is
left to the loader, which also checks that each bill was converted under the
current facts of its shop.
"""

import fcntl
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import cycle
from queue import SimpleQueue
from threading import Thread

from msgspec import Struct, msgpack

from counterfoil.domain.changes import KnownFacts
from counterfoil.domain.tokens import Pseudonyms
from counterfoil.ingest.conversion import BillConverter, ConvertedBill, ConvertedLines, converted_lines
from counterfoil.ingest.converter_process import ConverterAnswer, LinesToConvert, read_message, write_message
from counterfoil.ingest.lines import SourceLine

# Starting a process takes as long as converting a few thousand bills, so a small load does not start any. A load that
# is known to have at least BYTES_TO_START_AT_ONCE starts them before its first line.
LINES_BEFORE_START = 2_000
BYTES_TO_START_AT_ONCE = 4 * 1024 * 1024
# A message ends when it has this many bytes, or after this time, so that lines from a slow source are not held back.
MESSAGE_BYTES = 256 * 1024
MESSAGE_SEC = 0.05
# The maximum number of unanswered messages per process. They keep it busy while the loader writes a large batch.
MAX_WAITING = 16
# An answer fits into a pipe of this size. With a smaller pipe, the process would have to wait for the loader.
PIPE_BYTES = 1024 * 1024
MAX_KNOWN_SHOPS = 10_000

_encode = msgpack.Encoder().encode
_decode = msgpack.Decoder(ConverterAnswer).decode


class ConverterStopped(Exception):
    """A converter process ended during the load."""

    def __init__(self) -> None:
        super().__init__(
            "a process that converts bills for this load was killed or failed. Every batch written so far is "
            "complete. Run the same command to resume, or add --converters 0 to load without such processes."
        )


def free_cores() -> int:
    """Return the number of cores for additional processes: all but one, which the loader uses."""
    has_affinity = hasattr(os, "sched_getaffinity")
    return max(0, (len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1) - 1)


class ConverterProcess:
    """The loader's connection to one converter process.

    Two threads pass messages on, so that the process always has work while the
    loader waits for the store.
    """

    def __init__(self, secret: bytes) -> None:
        # The process has the same module search path as this one. It has its own process group, so that only the
        # loader receives Ctrl-C.
        path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)  # noqa: PTH109 - as sys.path has it
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "counterfoil.ingest.converter_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": path},
            process_group=0,
        )
        self._pipes = [pipe for pipe in (self._process.stdin, self._process.stdout) if pipe]
        self._requests, self._results = (pipe.fileno() for pipe in self._pipes)
        for pipe in (self._requests, self._results):
            with suppress(AttributeError, OSError):  # Only Linux can resize a pipe, up to a limit per user.
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._to_send: SimpleQueue[bytes | None] = SimpleQueue()
        self._answers: SimpleQueue[bytes | None] = SimpleQueue()
        self._threads = [Thread(target=each, daemon=True) for each in (self._send_all, self._receive_all)]
        for thread in self._threads:
            thread.start()
        self.told = 0
        self.send(secret)

    def send(self, message: bytes) -> None:
        self._to_send.put(message)

    def has_answer(self) -> bool:
        return not self._answers.empty()

    def answer(self) -> bytes:
        """Wait for the next answer and return it."""
        answer = self._answers.get()
        if answer is None:
            raise ConverterStopped
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._to_send.put(None)
        for thread in self._threads:
            thread.join()
        for pipe in self._pipes:
            pipe.close()

    def _send_all(self) -> None:
        # If the process has ended, ignore the error here: the thread that reads the answers reports it.
        with suppress(OSError):
            while message := self._to_send.get():
                write_message(self._requests, message)

    def _receive_all(self) -> None:
        with suppress(OSError):
            while answer := read_message(self._results):
                self._answers.put(answer)
        self._answers.put(None)


class _Sent(Struct, gc=False):
    """Lines that were sent to a process, and the facts that it had then. Its answer refers to facts by index."""

    lines: list[SourceLine]
    facts: list[KnownFacts]
    process: ConverterProcess

    @property
    def is_done(self) -> bool:
        return self.process.has_answer()

    def converted(self) -> ConvertedLines:
        return _decode(self.process.answer()).converted(self.lines, self.facts)


class _Done(Struct, gc=False):
    """Lines that the loader converted itself."""

    result: ConvertedLines
    process: None = None
    is_done: bool = True

    def converted(self) -> ConvertedLines:
        return self.result


class Converters:
    """Converts lines in the order in which they are read, with at most `processes` additional processes.

    A group of lines that are converted together has at most `most_lines` lines.
    """

    def __init__(
        self, pseudonyms: Pseudonyms, facts: Callable[[str], KnownFacts | None], processes: int, most_lines: int = 500
    ) -> None:
        self._most_lines = most_lines
        self._pseudonyms = pseudonyms
        self._converter = BillConverter(pseudonyms, facts)
        self._most = processes
        self._processes: list[ConverterProcess] = []
        self._facts: list[KnownFacts] = []
        self._numbers: dict[str, int] = {}

    def convert(self, lines: Iterable[SourceLine], total_bytes: int = 0) -> Iterator[ConvertedLines]:
        """Yield all lines, in groups, with the bills on them if the lines could be converted.

        `total_bytes` is the size of the source if it is known.
        """
        lines = iter(lines)
        try:
            if total_bytes >= BYTES_TO_START_AT_ONCE:
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
            # Create a new list instead of clearing this one, to which lines that are being converted still refer.
            self._facts, self._numbers = [], {}
            for process in self._processes:
                process.told = 0
        self._numbers[known.facts.shop_id] = len(self._facts)
        self._facts.append(known)

    def _convert_here(self, lines: Iterator[SourceLine]) -> Iterator[ConvertedLines]:
        """Convert lines in this process until the other processes are ready."""
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
            if self._processes and all(process.has_answer() for process in self._processes):
                for process in self._processes:
                    process.answer()
                return

    def _converted(self, lines: Iterator[SourceLine], bills: list[ConvertedBill | None]) -> Iterator[SourceLine]:
        """Yield the lines. Convert each of them when it is read, and add the result to `bills`."""
        for line in lines:
            bills.append(self._converter.convert_clean(line.text))
            yield line

    def _start(self) -> None:
        with suppress(OSError):  # If a process cannot start, the load only takes longer.
            for _ in range(self._most if sys.executable else 0):
                self._processes.append(ConverterProcess(self._pseudonyms.secret))

    def _convert_elsewhere(self, lines: Iterator[SourceLine]) -> Iterator[ConvertedLines]:
        waiting: deque[_Sent | _Done] = deque()
        turns = cycle(self._processes)
        unanswered, most = 0, MAX_WAITING * len(self._processes)
        for some in _messages(lines, self._most_lines):
            if unanswered < most:
                waiting.append(self._sent(some, next(turns)))
                unanswered += 1
            else:
                # The processes have enough to do, so convert these lines here instead of waiting.
                here = [self._converter.convert_clean(one.text) for one in some]
                waiting.append(_Done(converted_lines(some, here)))
            while waiting and (waiting[0].is_done or len(waiting) > 2 * most):
                unanswered -= waiting[0].process is not None
                yield waiting.popleft().converted()
        while waiting:
            yield waiting.popleft().converted()

    def _sent(self, lines: list[SourceLine], process: ConverterProcess) -> _Sent:
        facts = {number: self._facts[number] for number in range(process.told, len(self._facts))}
        forgets = process.told == 0
        process.told = len(self._facts)
        process.send(_encode(LinesToConvert([line.text for line in lines], facts, forgets)))
        return _Sent(lines, self._facts, process)


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
