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
from counterfoil.ingest.conversion import BillConverter, ConvertedBill, ConvertedLines
from counterfoil.ingest.fields import Findings
from counterfoil.ingest.lines import SourceLine

_LENGTH_BYTES = 8
NICENESS = 5


class LinesToConvert(Struct, array_like=True):
    """Lines to convert, and the facts that the process has not received yet, by their number."""

    lines: list[bytes] = field(default_factory=list)
    facts: dict[int, KnownFacts] = field(default_factory=dict)
    # True if the process must forget all facts that it has received, because there are too many of them.
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
    """The bills on the lines of a message, in the same order. The other attributes are as in `ConvertedLines`."""

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
    """Return the answer to a message. `numbers` maps the ID of each shop to the number of its facts."""
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
        write_message(answers, encode(answer_of([converter.convert(line) for line in asked.lines], numbers)))


def main() -> None:
    # Ignore Ctrl-C: the loader handles it and then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Run with low priority, so that the service comes first. If this process is slow, the loader itself converts more
    # bills.
    os.nice(NICENESS)
    try:
        run(sys.stdin.fileno(), sys.stdout.fileno())
    except BrokenPipeError:
        # The loader was killed, so nobody reads the answer.
        sys.exit(1)


if __name__ == "__main__":
    main()
