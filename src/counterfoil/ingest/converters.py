"""Converts the bills of a load, in additional processes if the load is large and the machine has several cores.

The additional processes only save time: everything that they cannot convert is
left to the loader, which also checks that each bill was converted with the
current facts of its shop.
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
from contextlib import contextmanager, suppress
from functools import lru_cache
from queue import SimpleQueue
from socket import MSG_WAITALL, socket, socketpair
from threading import Thread, active_count
from typing import TYPE_CHECKING, Any

from msgspec import Struct, msgpack
from msgspec.structs import astuple

from counterfoil.domain.changes import EncodedBill, KnownFacts
from counterfoil.domain.tokens import Pseudonyms
from counterfoil.ingest.conversion import BillConverter, ConvertedBill, ConvertedLines, converted_lines
from counterfoil.ingest.fields import Findings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from multiprocessing.context import ForkContext, SpawnContext

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
NICENESS = 5
_LENGTH_BYTES = 8
# Only the loader handles these signals, and then ends the converters. systemd sends SIGTERM to all processes of a unit.
IGNORED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# Matches the ID of the shop in a line with a bill, unless the ID is written with escape sequences.
_SHOP_ID = re.compile(rb'"shopId" ?: ?"([^"\\]{1,512})"')

# The fields of an `EncodedBill`, with the index of its shop's facts in place of the facts, which the loader has.
BillFields = list[Any]
_KNOWN = EncodedBill.__struct_fields__.index("known")
# What a load counts about a bill: whether it has no items and no amounts, and its unknown and unreadable fields.
CountedParts = tuple[bool, bool, Findings | None]
# The bills on a message's lines, and those with something to count or to reject, by the index of their line.
Answer = tuple[list[BillFields | None], dict[int, CountedParts | None]]


def free_cores() -> int:
    """Return the number of cores for additional processes: all but one, which the loader uses."""
    has_affinity = hasattr(os, "sched_getaffinity")
    return max(0, (len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1) - 1)


# --- in the additional processes ------------------------------------------------------


class _Worker:
    """The state of a converter process."""

    def __init__(self, secret: bytes) -> None:
        self._facts: dict[str, KnownFacts] = {}
        self._converter = BillConverter(Pseudonyms(secret), self._facts.get)
        # The same text gives the same object, so that the converter keeps what it has prepared for a shop.
        self._decode = lru_cache(MAX_KNOWN_SHOPS)(msgpack.Decoder(KnownFacts).decode)

    def convert(self, lines: list[bytes], facts: list[bytes]) -> Answer:
        self._facts.clear()
        indexes = {}
        for index, encoded in enumerate(facts):
            known = self._decode(encoded)
            shop_id = known.facts.shop_id
            self._facts[shop_id], indexes[shop_id] = known, index
        found = converted_lines([], [self._converter.convert(line) for line in lines])
        special = {
            index: (each.without_items, each.without_amounts, each.findings) if each else None
            for index, each in found.special.items()
        }
        return [_fields(bill, indexes[bill.shop_id]) if bill else None for bill in found.bills], special


def _fields(bill: EncodedBill, facts: int) -> BillFields:
    fields = list(astuple(bill))
    fields[_KNOWN] = facts
    return fields


def _run(connection: socket, inherited: socket | None, secret: bytes) -> None:
    """Answer messages until the loader closes the connection or ends.

    `inherited` is the loader's end of the connection in a fork. While it is open here, the end of the loader would not
    be noticed.
    """
    if inherited:
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
    worker, messages = _Worker(secret), _Messages(connection)
    try:
        messages.send(b"ready")
        while message := messages.receive():
            messages.send(pickle.dumps(worker.convert(*pickle.loads(message)), pickle.HIGHEST_PROTOCOL))  # noqa: S301
    except Exception as error:  # noqa: BLE001 - the error's message may contain data, so it is not printed
        from traceback import extract_tb  # noqa: PLC0415 - the process should start quickly

        where = extract_tb(error.__traceback__)[-1]
        sys.stderr.write(f"counterfoil: converter: {type(error).__name__} in {where.name}:{where.lineno}\n")


# --- between the processes ------------------------------------------------------------


class _Messages:
    """Messages to and from another process. Threads pass them on, so that neither process waits for the other."""

    def __init__(self, connection: socket) -> None:
        self._connection = connection
        self._to_send: SimpleQueue[bytes] = SimpleQueue()
        self._received: SimpleQueue[bytes | None] = SimpleQueue()
        self._threads = [Thread(target=work, daemon=True) for work in (self._send_all, self._receive_all)]
        for thread in self._threads:
            thread.start()

    def send(self, message: bytes) -> None:
        self._to_send.put(message)

    def has_message(self) -> bool:
        return not self._received.empty()

    def receive(self) -> bytes | None:
        """Wait for the next message and return it, or None if the other process has ended."""
        return self._received.get()

    def close(self) -> None:
        """End the threads. Call this only after the other process has ended."""
        self._to_send.put(b"")
        for thread in self._threads:
            thread.join()

    def _send_all(self) -> None:
        # If the other process has ended, ignore the error here: the thread that receives messages reports it.
        with suppress(OSError):
            while message := self._to_send.get():
                self._connection.sendall(len(message).to_bytes(_LENGTH_BYTES, "big") + message)

    def _receive_all(self) -> None:
        with suppress(OSError):
            while length := int.from_bytes(self._read(_LENGTH_BYTES), "big"):
                message = self._read(length)
                if len(message) < length:
                    break
                self._received.put(message)
        self._received.put(None)

    def _read(self, length: int) -> bytes:
        """Return `length` bytes, or fewer if the input ends.

        MSG_WAITALL makes the kernel collect the bytes: a thread that read them in parts, as the connections of
        `multiprocessing` do, would wait for the GIL after each part.
        """
        parts = []
        while length and (part := self._connection.recv(length, MSG_WAITALL)):
            parts.append(part)
            length -= len(part)
        return b"".join(parts)


class ConverterProcess:
    """A process that converts bills for the loader. `is_lost` is true once the loader has noticed that it has ended."""

    def __init__(self, context: ForkContext | SpawnContext, secret: bytes) -> None:
        self._connection, theirs = socketpair()
        # Block these signals, so that they never run the loader's handlers in a fork.
        allowed = signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED_SIGNALS)
        try:
            inherited = self._connection if context.get_start_method() == "fork" else None
            self.process = context.Process(target=_run, args=(theirs, inherited, secret), daemon=True)
            self.process.start()
        except OSError:
            self._connection.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, allowed)
            theirs.close()
        self._messages: _Messages | None = None
        self._is_ready = self.is_lost = False

    def is_ready(self) -> bool:
        """Return whether the process has started."""
        if not self._is_ready and self.has_answer():
            self._is_ready = self.answer() is not None
        return self._is_ready and not self.is_lost

    def send(self, lines: list[bytes], facts: list[bytes]) -> None:
        self._connected().send(pickle.dumps((lines, facts), pickle.HIGHEST_PROTOCOL))

    def has_answer(self) -> bool:
        """Return whether `answer` would return without waiting."""
        return self.is_lost or self._connected().has_message()

    def answer(self) -> bytes | None:
        """Wait for the next answer and return it, or None if the process has ended."""
        answer = None if self.is_lost else self._connected().receive()
        self.is_lost = answer is None
        return answer

    def _connected(self) -> _Messages:
        """Return the messages. The threads that pass them on start only after all forks were made."""
        if self._messages is None:
            self._messages = _Messages(self._connection)
        return self._messages

    def close(self) -> None:
        """End the process, also if it is still converting lines, whose result nobody needs any more."""
        self.process.kill()
        self.process.join()
        if self._messages:
            self._messages.close()
        self._connection.close()


# --- in the loader -------------------------------------------------------------------


class ConverterPool:
    """The converter processes of a load. If they cannot be started or one of them ends, the loader does their work."""

    def __init__(self, pseudonyms: Pseudonyms, most: int) -> None:
        self.most = most
        self.processes: list[ConverterProcess] = []
        self._secret = pseudonyms.secret

    def start(self, *, forks: bool) -> None:
        """Start the processes, as forks of this process or as new processes, which takes longer."""
        from multiprocessing import get_context  # noqa: PLC0415 - only large loads need it

        context = get_context("fork") if forks else get_context("spawn")
        with suppress(OSError), _without_settings():  # The system may allow no more processes.
            for _ in range(self.most):
                self.processes.append(ConverterProcess(context, self._secret))

    def close(self) -> None:
        while self.processes:
            self.processes.pop().close()


@contextmanager
def _without_settings() -> Iterator[None]:
    """Hide the settings from new processes, because some of them are secrets."""
    settings = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("COUNTERFOIL_")}
    try:
        yield
    finally:
        os.environ.update(settings)


@contextmanager
def converter_pool(pseudonyms: Pseudonyms, most: int, total_bytes: int | None) -> Iterator[ConverterPool]:
    """Yield the processes of a load, and end them afterwards. If it is known to be large, they are started at once.

    Open the store inside the `with` block, because a fork must not inherit a connection.
    """
    pool = ConverterPool(pseudonyms, most)
    try:
        if most and (total_bytes or 0) >= BYTES_TO_START_AT_ONCE:
            # On macOS, system libraries may fail in a fork. If this process has several threads, another thread may
            # hold a lock, which would stay locked in the fork.
            pool.start(forks=sys.platform == "linux" and active_count() == 1)
        yield pool
    finally:
        pool.close()


class _Group(Struct, gc=False):
    """Lines with their conversion, or with the process that converts them. Its answer refers to the facts by index."""

    lines: list[SourceLine]
    result: ConvertedLines | None = None
    process: ConverterProcess | None = None
    facts: Sequence[KnownFacts] = ()

    @property
    def is_done(self) -> bool:
        return self.process is None or self.process.has_answer()


class Converters:
    """Converts lines, with the processes of a pool if there are any. The results have the same order as the lines.

    A group of lines that are converted together has at most `most_lines` lines.
    """

    def __init__(
        self,
        pseudonyms: Pseudonyms,
        facts: Callable[[str], KnownFacts | None],
        pool: ConverterPool | None = None,
        most_lines: int = 500,
    ) -> None:
        self._most_lines = most_lines
        self._pool = pool or ConverterPool(pseudonyms, 0)
        self._converter = BillConverter(pseudonyms, facts)
        self._facts_of = facts
        self._encoded: dict[str, tuple[KnownFacts, bytes]] = {}
        self._encode = msgpack.Encoder().encode
        self._sent = 0

    def convert(self, lines: Iterable[SourceLine]) -> Iterator[ConvertedLines]:
        """Yield all lines, in groups, with the bills on them if the lines could be converted."""
        waiting: deque[_Group] = deque()
        pool, count = self._pool, 0
        most = MAX_WAITING * pool.most
        for some in _grouped(lines, self._most_lines):
            unanswered = sum(group.process is not None for group in waiting)
            waiting.append(self._group(some, may_send=unanswered < most))
            while waiting and (waiting[0].is_done or len(waiting) > 2 * most):
                yield self._result(waiting.popleft())
            count += len(some)
            if count - len(some) < LINES_BEFORE_START <= count and not pool.processes and pool.most:
                pool.start(forks=False)
        while waiting:
            self._convert_last(waiting)
            yield self._result(waiting.popleft())

    def _group(self, lines: list[SourceLine], *, may_send: bool) -> _Group:
        """Send the lines to a process. If all processes have enough to do or none is ready, convert the lines here."""
        if ready := [process for process in self._pool.processes if process.is_ready()] if may_send else []:
            process = ready[self._sent % len(ready)]
            self._sent += 1
            facts = self._facts_for(lines)
            process.send([line.text for line in lines], [self._encoded_facts(known) for known in facts])
            return _Group(lines, None, process, facts)
        return _Group(lines, self._converted_here(lines))

    def _facts_for(self, lines: list[SourceLine]) -> list[KnownFacts]:
        """Return the facts of the lines' shops. The lines are not decoded, so a shop may be missed.

        A process does not convert the bills of a shop whose facts it does not have: the loader reads them itself.
        """
        found = {match[1] for line in lines if (match := _SHOP_ID.search(line.text))}
        names = (shop_id.decode("utf-8", "replace") for shop_id in sorted(found))
        return [known for name in names if (known := self._facts_of(name))]

    def _encoded_facts(self, known: KnownFacts) -> bytes:
        shop_id = known.facts.shop_id
        encoded = self._encoded.get(shop_id)
        if encoded is None or encoded[0] is not known:
            if len(self._encoded) >= MAX_KNOWN_SHOPS:
                self._encoded.clear()
            encoded = self._encoded[shop_id] = known, self._encode(known)
        return encoded[1]

    def _result(self, group: _Group) -> ConvertedLines:
        """Return the converted lines. If their process has ended, convert them here."""
        answer = group.process.answer() if group.process else None
        if answer:
            return _from_answer(group.lines, group.facts, *pickle.loads(answer))  # noqa: S301 - from our own process
        return group.result or self._converted_here(group.lines)

    def _convert_last(self, waiting: deque[_Group]) -> None:
        """Convert lines here, the last ones first, until a process has converted the first ones.

        Each process answers its messages in order, so the answers for the last lines come last and need not be read.
        """
        for index in range(len(waiting) - 1, 0, -1):
            if waiting[0].is_done:
                return
            last = waiting[index]
            if last.process:
                waiting[index] = _Group(last.lines, self._converted_here(last.lines))

    def _converted_here(self, lines: list[SourceLine]) -> ConvertedLines:
        return converted_lines(lines, [self._converter.convert_clean(line.text) for line in lines])


def _from_answer(
    lines: list[SourceLine],
    facts: Sequence[KnownFacts],
    answers: list[BillFields | None],
    counted: dict[int, CountedParts | None],
) -> ConvertedLines:
    used = {fields[_KNOWN] for fields in answers if fields}
    for fields in answers:
        if fields:
            fields[_KNOWN] = facts[fields[_KNOWN]]
    bills = [EncodedBill(*fields) if fields else None for fields in answers]
    special = {
        index: ConvertedBill(bill, *found) if found and (bill := bills[index]) else None
        for index, found in counted.items()
    }
    return ConvertedLines(lines, bills, special, [facts[index] for index in used])


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
