"""A process that converts bills for a load, and the messages that it exchanges with the loader.

The process is a fork of the loader, or a new process whose standard input is a
socket. It reads messages from the socket and writes one answer per message. It
ends when the loader closes the socket, so it never outlives the loader.
"""

import gc
import os
import signal
from contextlib import suppress
from queue import SimpleQueue
from socket import MSG_WAITALL, socket
from threading import Thread
from typing import NoReturn

from msgspec import Struct, field, msgpack

from counterfoil.domain.changes import EncodedBill, KnownFacts
from counterfoil.domain.tokens import Pseudonyms
from counterfoil.ingest.conversion import BillConverter, ConvertedBill, ConvertedLines
from counterfoil.ingest.fields import Findings
from counterfoil.ingest.lines import SourceLine

_LENGTH_BYTES = 8
NICENESS = 5
# Only the loader handles these signals, and then ends the converters. systemd sends SIGTERM to all processes of a unit.
IGNORED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STDIN, STDOUT, STDERR = 0, 1, 2


class LinesToConvert(Struct, array_like=True):
    """Lines to convert, and facts that the process has not received yet, keyed by the number that identifies them."""

    lines: list[bytes] = field(default_factory=list)
    facts: dict[int, KnownFacts] = field(default_factory=dict)
    # True if the process must discard all facts that it has received, because the loader numbers them from 0 again.
    forgets: bool = False


class BillFields(Struct, array_like=True, gc=False):
    """The parts of an `EncodedBill` that the loader does not know. `facts` identifies the facts of its shop."""

    facts: int
    bill_id: str
    history: bool
    closed_at: int | None
    trading_day: str | None
    bill_day: int
    withheld: bytes | None
    body: bytes
    digest: bytes
    rev: int | float | None

    def encoded(self, known: KnownFacts) -> EncodedBill:
        return EncodedBill(
            known.facts.shop_id,
            self.bill_id,
            self.history,
            self.closed_at,
            self.trading_day,
            self.bill_day,
            self.withheld,
            self.body,
            self.digest,
            known,
            self.rev,
        )


class CountedFields(Struct, array_like=True, gc=False):
    """The parts of a `ConvertedBill` that a load counts."""

    without_items: bool
    without_amounts: bool
    unknown: list[str]
    unreadable: list[str]

    def converted(self, bill: EncodedBill) -> ConvertedBill:
        has_findings = self.unknown or self.unreadable
        findings = Findings(set(self.unknown), set(self.unreadable)) if has_findings else None
        return ConvertedBill(bill, self.without_items, self.without_amounts, findings)


class ConverterAnswer(Struct, array_like=True, gc=False):
    """The parts of a `ConvertedLines` that a converter process sends back.

    The lines are left out, and each shop's facts are replaced by their number.
    """

    bills: list[BillFields | None]
    special: dict[int, CountedFields | None]
    facts: list[int]

    def converted(self, lines: list[SourceLine], facts: list[KnownFacts]) -> ConvertedLines:
        bills = [each.encoded(facts[each.facts]) if each else None for each in self.bills]
        special = {
            index: counted.converted(bill) if counted and (bill := bills[index]) else None
            for index, counted in self.special.items()
        }
        return ConvertedLines(lines, bills, special, [facts[number] for number in self.facts])


def answer_of(converted: list[ConvertedBill | None], numbers: dict[str, int]) -> ConverterAnswer:
    """Return the answer to a message. `numbers` maps each shop's ID to the number that identifies its facts."""
    bills = [fields_of(each.bill, numbers[each.bill.shop_id]) if each else None for each in converted]
    special = {
        index: counted_fields_of(each) if each else None
        for index, each in enumerate(converted)
        if each is None or not each.is_plain
    }
    return ConverterAnswer(bills, special, list({each.facts for each in bills if each}))


def fields_of(bill: EncodedBill, facts: int) -> BillFields:
    return BillFields(
        facts,
        bill.bill_id,
        bill.history,
        bill.closed_at,
        bill.trading_day,
        bill.bill_day,
        bill.withheld,
        bill.body,
        bill.digest,
        bill.rev,
    )


def counted_fields_of(converted: ConvertedBill) -> CountedFields:
    findings = converted.findings
    return CountedFields(
        converted.without_items,
        converted.without_amounts,
        list(findings.unknown) if findings else [],
        list(findings.unreadable) if findings else [],
    )


def write_message(connection: socket, message: bytes) -> None:
    connection.sendall(len(message).to_bytes(_LENGTH_BYTES, "big") + message)


def read_message(connection: socket) -> bytes | None:
    """Return the next message, or None if there are no more."""
    length = int.from_bytes(_read(connection, _LENGTH_BYTES), "big")
    message = _read(connection, length)
    return message if length and len(message) == length else None


def _read(connection: socket, length: int) -> bytes:
    """Return `length` bytes, or fewer if the input ends.

    MSG_WAITALL makes the kernel collect the bytes: a thread that read them in parts would wait for the GIL after each
    part.
    """
    parts = []
    while length and (part := connection.recv(length, MSG_WAITALL)):
        parts.append(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


class MessageQueues:
    """Messages to and from another process. Two threads pass them on, so that `send` never waits for that process."""

    def __init__(self, connection: socket) -> None:
        self._connection = connection
        self._to_send: SimpleQueue[bytes | None] = SimpleQueue()
        self._received: SimpleQueue[bytes | None] = SimpleQueue()
        self._threads = [Thread(target=each, daemon=True) for each in (self._send_all, self._receive_all)]
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
        """End the threads and close the connection. Call this only after the other process has ended."""
        self._to_send.put(None)
        for thread in self._threads:
            thread.join()
        self._connection.close()

    def _send_all(self) -> None:
        # If the other process has ended, ignore the error here: the thread that receives messages reports it.
        with suppress(OSError):
            while message := self._to_send.get():
                write_message(self._connection, message)

    def _receive_all(self) -> None:
        with suppress(OSError):
            while message := read_message(self._connection):
                self._received.put(message)
        self._received.put(None)


def run(connection: socket) -> None:
    """Answer messages until there are no more. The first message is the deployment secret."""
    queues = MessageQueues(connection)
    secret = queues.receive()
    if secret is None:
        return
    known: dict[str, KnownFacts] = {}
    numbers: dict[str, int] = {}
    converter = BillConverter(Pseudonyms(secret), known.get)
    decode, encode = msgpack.Decoder(LinesToConvert).decode, msgpack.Encoder().encode
    # This answer to the first message, the secret, tells the loader that the process is ready.
    queues.send(encode([]))
    while message := queues.receive():
        asked = decode(message)
        if asked.forgets:
            known.clear()
        for number, facts in asked.facts.items():
            known[facts.facts.shop_id], numbers[facts.facts.shop_id] = facts, number
        queues.send(encode(answer_of([converter.convert(line) for line in asked.lines], numbers)))


def run_fork(connection: socket) -> NoReturn:
    """Run in a fork of the loader and then end the fork, without running any code that belongs to the loader."""
    status = 1
    try:
        # Only the loader receives Ctrl-C.
        os.setpgid(0, 0)
        _close_all_except(connection.fileno())
        _run_until_closed(connection)
        status = 0
    except BaseException as error:  # noqa: BLE001 - the error's message may contain data, so it is not printed
        import traceback  # noqa: PLC0415 - the process should start quickly

        where = traceback.extract_tb(error.__traceback__)[-1]
        os.write(STDERR, f"counterfoil: converter: {type(error).__name__} in {where.name}:{where.lineno}\n".encode())
    finally:
        os._exit(status)


def _close_all_except(kept: int) -> None:
    """Close the files of the loader, except `kept` and standard error. Standard input and output become /dev/null."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (STDIN, STDOUT):
        os.dup2(nothing, descriptor)
    os.closerange(STDERR + 1, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


def _run_until_closed(connection: socket) -> None:
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, IGNORED_SIGNALS)
    # Run with low priority, so that the service comes first. If this process is slow, the loader itself converts more
    # bills. Some environments, for example a strict systemd unit, do not allow changing the priority.
    with suppress(OSError):
        os.nice(NICENESS)
    # Bills form no reference cycles, so the garbage collector is not needed.
    gc.disable()
    run(connection)


if __name__ == "__main__":
    _run_until_closed(socket(fileno=STDIN))
