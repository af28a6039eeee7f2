"""A process that converts bills for a load, and the messages that it exchanges with the loader.

The loader writes messages to the standard input of the process and reads one
answer per message from its standard output. The process ends when its input
ends, so it never outlives the loader.
"""

import os
import signal
import sys

from msgspec import Struct, field, msgpack

from counterfoil.domain.changes import EncodedBill, KnownFacts
from counterfoil.domain.tokens import Pseudonyms
from counterfoil.ingest.conversion import BillConverter, ConvertedBill
from counterfoil.ingest.fields import Findings

_LENGTH_BYTES = 8
NICENESS = 5


class LinesToConvert(Struct, array_like=True):
    """Lines, and the facts of shops that the process does not know yet, by the number that identifies them."""

    lines: list[bytes] = field(default_factory=list)
    facts: dict[int, KnownFacts] = field(default_factory=dict)
    # Whether the process has to forget all facts that it knows, because there are too many of them.
    forgets: bool = False


class BillFields(Struct, array_like=True, gc=False):
    """The parts of a `ConvertedBill` that the loader does not know. `facts` identifies the facts of its shop."""

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
    without_items: bool
    without_amounts: bool
    unknown: list[str]
    unreadable: list[str]

    def converted(self, known: KnownFacts) -> ConvertedBill:
        bill = EncodedBill(
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
        has_findings = self.unknown or self.unreadable
        findings = Findings(set(self.unknown), set(self.unreadable)) if has_findings else None
        return ConvertedBill(bill, self.without_items, self.without_amounts, findings)


def fields_of(converted: ConvertedBill, facts: int) -> BillFields:
    bill, findings = converted.bill, converted.findings
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
        converted.without_items,
        converted.without_amounts,
        list(findings.unknown) if findings else [],
        list(findings.unreadable) if findings else [],
    )


def write_message(descriptor: int, message: bytes) -> None:
    rest = memoryview(len(message).to_bytes(_LENGTH_BYTES, "big") + message)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def read_message(descriptor: int) -> bytes | None:
    """Return the next message, or None if there are no more."""
    length = int.from_bytes(_read(descriptor, _LENGTH_BYTES), "big")
    message = _read(descriptor, length)
    return message if length and len(message) == length else None


def _read(descriptor: int, length: int) -> bytes:
    """Return this many bytes, or fewer if the input ends."""
    parts = []
    while length and (part := os.read(descriptor, length)):
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def run(requests: int, answers: int) -> None:
    """Answer messages until there are no more. The first message is the deployment secret."""
    secret = read_message(requests)
    if secret is None:
        return
    known: dict[str, KnownFacts] = {}
    numbers: dict[str, int] = {}
    converter = BillConverter(Pseudonyms(secret), known.get)
    decode, encode = msgpack.Decoder(LinesToConvert).decode, msgpack.Encoder().encode
    # The answer to the secret tells the loader that the process is ready.
    write_message(answers, encode([]))
    while message := read_message(requests):
        asked = decode(message)
        if asked.forgets:
            known.clear()
        for number, facts in asked.facts.items():
            known[facts.facts.shop_id], numbers[facts.facts.shop_id] = facts, number
        converted = map(converter.convert, asked.lines)
        write_message(answers, encode([each and fields_of(each, numbers[each.bill.shop_id]) for each in converted]))


def main() -> None:
    # Ctrl-C reaches every process in the terminal. The loader handles it and then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Run with low priority: the service comes first, and the loader then converts more of the bills itself.
    os.nice(NICENESS)
    try:
        run(sys.stdin.fileno(), sys.stdout.fileno())
    except BrokenPipeError:
        # The loader was killed, so nobody reads the answer.
        sys.exit(1)


if __name__ == "__main__":
    main()
