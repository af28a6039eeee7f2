"""Converts the bills and members of a load, in additional processes if it is large and the machine has several cores.

The additional processes only save time: everything that they cannot convert is left to the loader, which also checks
that each bill was converted with the current facts of its shop.
"""

from __future__ import annotations

import gc
import os
import pickle
import re
import signal
import sys
import time
from collections import deque
from contextlib import ExitStack, closing, contextmanager, suppress
from mmap import mmap
from multiprocessing import get_context
from threading import active_count
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from counterfoil.domain.changes import EncodedBill, KnownFacts
from counterfoil.domain.tokens import Pseudonyms
from counterfoil.ingest.conversion import Converted, LineConverter
from counterfoil.ingest.fields import Findings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from multiprocessing.connection import Connection

    from counterfoil.ingest.lines import SourceLine

# A load that is known to be smaller than this starts no processes.
MIN_BYTES = 4 * 1024 * 1024
# Smaller batches are converted by the loader. Whoever asks for them wants each record written as soon as it is read,
# but the result of a process is taken when the next line is read.
FEWEST_SENT = 10
# A message ends with so many bytes, or after this time, so that lines of a slow source are not held back.
MESSAGE_BYTES = 256 * 1024
MESSAGE_SEC = 0.05
# The maximum number of unanswered messages, of all processes. They have enough to do while the loader writes the bills
# that were converted meanwhile.
MAX_WAITING = 24
# The loader reads so many messages ahead. A process with a low priority may get little time on a busy machine. The
# loader then converts the others of them itself, three for each of the process, before it waits for it.
MAX_AHEAD = 4 * MAX_WAITING
# A load waits for the record of a new shop at most so many times.
MAX_MISSED = 10_000
# The space for one message. An answer has at most fifty times as many bytes as its lines.
SLOT_BYTES = 64 * 1024 * 1024
NICENESS = 5
# Only the loader handles these signals, and then ends the converters. systemd sends SIGTERM to all processes of a unit.
IGNORED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# Matches the ID of the shop in a line with a bill, unless the ID is written with escape sequences.
_SHOP_ID = re.compile(rb'"shopId" ?: ?"([^"\\]{1,512})"')

# The bill or the member on each line of a message, and what it has that cannot be read, by the index of its line.
Answer = tuple[list[Converted | None], dict[int, Findings]]
NO_ANSWER: Answer = ([], {})


def free_cores() -> int:
    """Return the number of cores for additional processes: all but one, which the loader uses."""
    has_affinity = hasattr(os, "sched_getaffinity")
    return max(0, (len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1) - 1)


class _Messages:
    """Messages to and from another process, in files in memory, so that neither process waits for the other.

    Only the sizes of the messages are sent through the connection. Threads that receive whole messages, as in the
    pools of the standard library, would wait for the GIL after each part of a message.
    """

    def __init__(self, connection: Connection, unneeded: mmap, outgoing: int, incoming: int) -> None:
        self.connection = connection
        self._outgoing, self._incoming = outgoing, incoming
        # The number of messages whose answers are not needed any more. Both processes see it.
        self._unneeded = unneeded
        self.sent = self.received = 0

    def send(self, content: object) -> None:
        message = pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
        place = self.sent % MAX_WAITING * SLOT_BYTES
        if len(message) > SLOT_BYTES or os.pwrite(self._outgoing, message, place) < len(message):
            raise OSError("the message cannot be written")
        self.sent += 1
        self.connection.send(len(message))

    def receive(self) -> Any:
        """Wait for the next message. Raise EOFError if the other process has ended."""
        size = self.connection.recv()
        message = os.pread(self._incoming, size, self.received % MAX_WAITING * SLOT_BYTES)
        self.received += 1
        return pickle.loads(message)  # noqa: S301 - from our own process

    def drop(self) -> None:
        """Say that the answers to all messages that were sent are not needed."""
        self._unneeded[:] = self.sent.to_bytes(len(self._unneeded))

    def is_unneeded(self) -> bool:
        """Return whether the answer to the last message that was received is not needed."""
        return self.received <= int.from_bytes(self._unneeded[:])


# --- in the additional processes ------------------------------------------------------


def _run(messages: _Messages, inherited: Connection, secret: bytes) -> None:
    """Answer messages until the loader closes the connection or ends."""
    # While the loader's end of the connection is open here, the end of the loader would not be noticed.
    inherited.close()
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, IGNORED_SIGNALS)
    # Run with low priority, so that the service comes first. If this process is slow, the loader itself converts more
    # bills. Some environments, for example a strict systemd unit, do not allow changing the priority.
    with suppress(OSError):
        os.nice(NICENESS)
    # Bills form no reference cycles, so the garbage collector is not needed.
    gc.disable()
    facts: dict[str, KnownFacts] = {}
    converter = LineConverter(Pseudonyms(secret), facts.get)
    try:
        while True:
            lines, shops = messages.receive()
            if messages.is_unneeded():
                messages.send(NO_ANSWER)
                continue
            facts.clear()
            facts.update({known.facts.shop_id: known for known in shops})
            messages.send(_answer(converter, lines))
    except EOFError:
        return
    except Exception as error:  # noqa: BLE001 - the error's message may contain data, so it is not printed
        where = extract_tb(error.__traceback__)[-1]
        sys.stderr.write(f"counterfoil: converter: {type(error).__name__} in {where.name}:{where.lineno}\n")


def _answer(converter: LineConverter, lines: list[bytes]) -> Answer:
    converted = [converter.convert(line) for line in lines]
    findings = {index: found for index, (_, found) in enumerate(converted) if found}
    return [change for change, _ in converted], findings


# --- in the loader -------------------------------------------------------------------


class ConverterProcess:
    """A fork of the loader that converts lines. `is_lost` is true once the loader has noticed that it has ended."""

    def __init__(self, secret: bytes) -> None:
        context = get_context("fork")
        self.is_lost = False
        # The next so many answers are not needed any more.
        self._unneeded = 0
        with ExitStack() as opened:
            self._connection, theirs = map(opened.enter_context, context.Pipe())
            files = [os.memfd_create("counterfoil") for _ in range(2)]
            for file in files:
                opened.callback(os.close, file)
            unneeded = opened.enter_context(mmap(-1, 8))
            self._messages = _Messages(self._connection, unneeded, *files)
            arguments = _Messages(theirs, unneeded, *reversed(files)), self._connection, secret
            self.process = context.Process(target=_run, args=arguments, daemon=True)
            # Block these signals, so that they never run the loader's handlers in the fork.
            allowed = signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED_SIGNALS)
            try:
                self.process.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, allowed)
            theirs.close()
            self._opened = opened.pop_all()

    @property
    def unanswered(self) -> int:
        return self._messages.sent - self._messages.received

    def send(self, lines: list[bytes], facts: list[KnownFacts]) -> None:
        try:
            self._messages.send((lines, facts))
        except OSError:
            self.is_lost = True

    def has_answer(self) -> bool:
        """Return whether `answer` would return without waiting."""
        self.take_unneeded_answers()
        return self.is_lost or (not self._unneeded and self._connection.poll())

    def answer(self) -> Answer | None:
        """Wait for the next answer and return it, or None if the process has ended."""
        while self._unneeded:
            self._drop_answer()
        return self._next_answer()

    def take_unneeded_answers(self) -> None:
        """Receive the dropped answers that are there, so that they do not count as unanswered."""
        while self._unneeded and (self.is_lost or self._connection.poll()):
            self._drop_answer()

    def drop_answers(self) -> None:
        """Drop the answers to all messages that were sent."""
        self._unneeded = self.unanswered
        self._messages.drop()

    def _drop_answer(self) -> None:
        self._next_answer()
        self._unneeded -= 1

    def _next_answer(self) -> Answer | None:
        try:
            return None if self.is_lost else self._messages.receive()
        except (EOFError, OSError):
            self.is_lost = True
            return None

    def close(self) -> None:
        """End the process, also if it is still converting lines, whose result nobody needs any more."""
        self.process.kill()
        self.process.join()
        self._opened.close()


@contextmanager
def converter_processes(pseudonyms: Pseudonyms, most: int, total_bytes: int | None) -> Iterator[list[ConverterProcess]]:
    """Yield the processes of a load, and end them afterwards. A load that is known to be small has none.

    Open the store inside the `with` block, because a fork must not inherit a connection. If this process has several
    threads, it is not forked: another thread may hold a lock, which would stay locked in the fork. Neither is it on
    macOS, where system libraries may fail in a fork.
    """
    is_large = total_bytes is None or total_bytes >= MIN_BYTES
    processes: list[ConverterProcess] = []
    with ExitStack() as started:
        if is_large and sys.platform == "linux" and active_count() == 1:
            with suppress(OSError):  # The system may allow no more processes.
                while len(processes) < most:
                    processes.append(started.enter_context(closing(ConverterProcess(pseudonyms.secret))))
        yield processes


class ConvertedLines(Struct, gc=False):
    """Consecutive lines, what each one was converted to, if it could be, and by index what cannot be read in them."""

    lines: list[SourceLine]
    changes: list[Converted | None]
    findings: dict[int, Findings]

    def versions(self) -> set[tuple[str, int]]:
        """Return the shops of the bills, with the versions of the facts under which they were converted."""
        bills = [change for change in self.changes if type(change) is EncodedBill]
        return {(bill.shop_id, bill.facts_version) for bill in bills}


class _Group(Struct, gc=False):
    """Lines with the process that converts them, or with their conversion."""

    lines: list[SourceLine]
    process: ConverterProcess | None
    answer: Answer | None = None

    @property
    def is_done(self) -> bool:
        return self.process is None or self.process.has_answer()


class Converters:
    """Converts lines, in groups of at most `most_lines`, with other processes if there are any, in the same order."""

    def __init__(
        self,
        pseudonyms: Pseudonyms,
        facts: Callable[[str], KnownFacts | None],
        processes: Sequence[ConverterProcess] = (),
        most_lines: int = 1000,
    ) -> None:
        self._most_lines = most_lines
        self._processes = processes if most_lines >= FEWEST_SENT else ()
        self._converter = LineConverter(pseudonyms, facts)
        self._facts_of = facts
        # The shops that were not known when their first bills were read.
        self._missed: set[bytes] = set()

    def convert(self, lines: Iterable[SourceLine]) -> Iterator[ConvertedLines]:
        """Yield all lines, in groups, with what they were converted to if they could be."""
        groups = _grouped(lines, self._most_lines)
        if not self._processes:
            for group_lines in groups:
                yield ConvertedLines(group_lines, *self._converted_here(group_lines))
            return
        waiting: deque[_Group] = deque()
        for group_lines in groups:
            facts, has_new_shop = self._facts_for(group_lines)
            if has_new_shop:
                # The record of the shop may be on a line before. Its bills are converted faster when it is written.
                yield from self._rest(waiting)
                waiting.append(_Group(group_lines, None))
            else:
                waiting.append(self._group(group_lines, facts))
            while waiting and (waiting[0].is_done or len(waiting) > MAX_AHEAD):
                yield self._result(waiting.popleft())
        yield from self._rest(waiting)

    def _rest(self, waiting: deque[_Group]) -> Iterator[ConvertedLines]:
        """Yield all groups that are waiting. While the first are converted elsewhere, convert the last ones here."""
        while waiting:
            for group in reversed(waiting):
                if waiting[0].is_done:
                    break
                if group.process:
                    group.process, group.answer = None, _answer(self._converter, [line.text for line in group.lines])
            yield self._result(waiting.popleft())
        for process in self._processes:
            process.drop_answers()

    def _group(self, lines: list[SourceLine], facts: list[KnownFacts]) -> _Group:
        """Send the lines to a process. If all processes have enough to do, convert the lines here."""
        for process in self._processes:
            process.take_unneeded_answers()
        running = [process for process in self._processes if not process.is_lost]
        if not running or sum(process.unanswered for process in running) >= MAX_WAITING:
            return _Group(lines, None, self._converted_here(lines))
        process = min(running, key=lambda process: process.unanswered)
        process.send([line.text for line in lines], facts)
        return _Group(lines, process)

    def _facts_for(self, lines: list[SourceLine]) -> tuple[list[KnownFacts], bool]:
        """Return the facts of the shops, and whether a bill is the first one of a shop that is not known.

        Lines are not decoded; the loader reads the bills of a missed shop.
        """
        shop_ids: set[bytes] = set()
        for line in lines:
            match = _SHOP_ID.search(line.text)
            if match:
                shop_ids.add(match[1])
        found: list[KnownFacts] = []
        has_new_shop = False
        for shop_id in sorted(shop_ids):
            known = self._facts_of(shop_id.decode("utf-8", "replace"))
            if known:
                found.append(known)
            elif shop_id not in self._missed and len(self._missed) < MAX_MISSED:
                has_new_shop = True
                self._missed.add(shop_id)
        return found, has_new_shop

    def _result(self, group: _Group) -> ConvertedLines:
        """Return the converted lines. If their process has ended, convert them here."""
        answer = group.process.answer() if group.process else group.answer
        return ConvertedLines(group.lines, *(answer or self._converted_here(group.lines)))

    def _converted_here(self, lines: list[SourceLine]) -> Answer:
        return [self._converter.convert_clean(line.text) for line in lines], {}


def _grouped(lines: Iterable[SourceLine], most: int) -> Iterator[list[SourceLine]]:
    """Yield the lines in groups of at most `most` lines."""
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
