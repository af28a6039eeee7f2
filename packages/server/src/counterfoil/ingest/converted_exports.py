"""Exports that were converted: their records in a private file, which a load reads as often as it needs.

Nothing of a stream is loaded before its `end` has come, and only if its counts are those of what has come before.
"""

import errno
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import IO, Any
from zoneinfo import ZoneInfo

import msgspec
from msgspec import UNSET, Struct, field, json

from counterfoil.domain.loads import MAX_REMEMBERED, RejectedLine, RejectedRows
from counterfoil.domain.shops import NOTHING_SET, ShopSettings
from counterfoil.importer.form import Form, form_of
from counterfoil.importer.protocol import (
    Answer,
    ConversionRequest,
    EndMessage,
    FormMessage,
    LeftOutMessage,
    NoteMessage,
    PreviewMessage,
    ProgressMessage,
    RecordMessage,
    RejectMessage,
    Texts,
    TotalsMessage,
)
from counterfoil.importing.results import IMPORT_PREFIX, ExportTotals, RejectedRow
from counterfoil.importing.sentences import FormText
from counterfoil.ingest.conversion_process import (
    OWN_CONVERTER,
    ConversionFailed,
    ConversionLimits,
    MemoryFull,
    disk_full,
    give_back,
    name_of,
    taken,
)
from counterfoil.ingest.lines import SourceLine
from counterfoil.ingest.sources import BUFFER_BYTES, Source
from counterfoil.model.messages import Message
from counterfoil.model.text import printable

# The records of small exports are kept in memory: a delivery may have many of them.
MAX_KEPT_BYTES = 256 * 1024
LINES_PER_CALL = 100
# The texts of a foreign converter may all be different.
MAX_TEXTS = 2_000
RECORDS_PER_CALL = 1_000


class LeftOutMoney(Struct, frozen=True):
    """Bills that are left out: how many, their net, and how many of them have none that can be read."""

    bills: int = 0
    net: Decimal = Decimal()
    unknown: int = 0


class ImportTally(Struct):
    """How many bills, shops and members were converted, and why rows were left out or rejected."""

    bills: int = 0
    shops: int = 0
    members: int = 0
    bases: int = 0
    base_ids: set[str] = set()
    """The bases of the members."""
    skipped: Counter[str] = field(default_factory=Counter)
    left_out: dict[str, LeftOutMoney] = {}
    """The bills among the skipped rows, by reason."""
    rejected: Counter[str] = field(default_factory=Counter)
    first_rejects: list[RejectedRow] = []
    rejects_file: Path | None = None
    new_shops: list[str] = []
    """The IDs of the shops that the export names and the store does not know."""
    names_of_shops: dict[str, str] = {}
    """The names that the export has for shops, by their IDs."""
    known_shops: list[str] = []
    """The IDs of the shops that the export names and the store knows already."""
    recognised: dict[str, str] = {}
    """What each file was recognised as, by its name."""
    texts: dict[str, FormText] = {}
    """What the sentences about left out and rejected rows and the notes were made of, by the sentence."""
    export_totals: list[ExportTotals] = []
    """The totals that the export itself states."""

    def keep_texts(self, texts: Texts) -> None:
        if isinstance(texts, tuple) and len(self.texts) < MAX_TEXTS:
            self.texts.update({made.text: made for made in texts})

    def skip(self, answer: LeftOutMessage) -> None:
        """Count a row that is left out and, if it is the first of a bill, the money of the bill."""
        if answer.reason not in self.skipped:
            self.keep_texts(answer.texts)
        self.skipped[answer.reason] += 1
        if answer.bills:
            self._leave_out(answer)

    def _leave_out(self, answer: LeftOutMessage) -> None:
        before = self.left_out.get(answer.reason, LeftOutMoney())
        self.left_out[answer.reason] = LeftOutMoney(
            before.bills + answer.bills,
            before.net + (answer.net or Decimal()),
            before.unknown + (answer.bills if answer.net is None else 0),
        )

    @property
    def wrong_totals(self) -> list[ExportTotals]:
        return [total for total in self.export_totals if total.stated != total.computed]

    def add(self, row: RejectedRow) -> bool:
        """Count a rejected row. Return whether it is one of the first, which are kept."""
        self.rejected[row.reason] += 1
        is_kept = len(self.first_rejects) < MAX_REMEMBERED
        if is_kept:
            self.first_rejects.append(row)
        return is_kept

    def rejected_rows(self, source: str | None = None) -> RejectedRows:
        """Return the rejected rows as a load stores them. They are of this source, or of the file that each names."""
        first = [RejectedLine(source or row.file, row.line, IMPORT_PREFIX + row.reason) for row in self.first_rejects]
        return RejectedRows({IMPORT_PREFIX + reason: count for reason, count in self.rejected.items()}, first)


class _Amounts(Struct):
    net: Decimal | None = None


class _Converted(Struct):
    """What is counted of a record."""

    kind: str
    id: str = ""
    timezone: str | None = None
    name: object = None
    provider_id: str | None = msgspec.field(default=None, name="providerId")
    amounts: _Amounts | None = None


_decode_counted = json.Decoder(_Converted).decode


class _Closed(Struct, rename="camel"):
    """What the hour of a bill follows from."""

    kind: str
    closed_at: str | None = None


_decode_closed = json.Decoder(_Closed).decode


class _Spool:
    """Lines that are written once and read several times: in memory or, if they are many, in a private file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] = BytesIO()
        self._path: Path | None = None
        self.size = 0

    def write(self, line: bytes) -> None:
        self.size += len(line)
        if self._path is None and self.size > MAX_KEPT_BYTES:
            self._move_to_disk()
        self._file.write(line)

    def _move_to_disk(self) -> None:
        kept = self._file
        assert isinstance(kept, BytesIO)  # noqa: S101 - the lines were in memory
        # Only the owner may read a file that `mkstemp` makes.
        descriptor, name = tempfile.mkstemp(dir=self._folder, prefix="counterfoil-")
        self._path = Path(name)
        self._file = os.fdopen(descriptor, "wb", buffering=BUFFER_BYTES)
        self._file.write(kept.getbuffer())

    def finish(self) -> None:
        if self._path:
            self._file.close()

    def lines(self) -> Iterator[bytes]:
        if self._path:
            with self._path.open("rb", buffering=BUFFER_BYTES) as lines:
                yield from lines
        else:
            assert isinstance(self._file, BytesIO)  # noqa: S101 - the lines are in memory
            yield from BytesIO(self._file.getvalue())

    def close(self) -> None:
        with suppress(OSError):
            self._file.close()
        if self._path:
            self._path.unlink(missing_ok=True)


class ConvertedExport(Source):
    """The source records of an export. Close it to delete them."""

    is_export = True

    def __init__(
        self, name: str, folder: Path, is_known: Callable[[str], bool], new_shops: ShopSettings, base: str | None = None
    ) -> None:
        super().__init__(name, None)
        self._base = base
        """The membership base of new shops."""
        self._is_known = is_known
        self._new_shops = new_shops
        self.tally = ImportTally()
        self.notes: list[str] = []
        """What the operator must know of the export."""
        self.line = 0
        """The line of the latest record."""
        self.preview: PreviewMessage | None = None
        """The first rows of a known table, if they were asked for."""
        self.has_shop_without_zone = False
        self.has_other_ids = False
        """Whether other files of the format have the same sales under other IDs."""
        self.state: dict[str, Any] | None = None
        """What the next import from the same database needs, once everything is loaded."""
        self._records = _Spool(folder)
        self._rejects = _Spool(folder)
        self._files: list[str] = []
        self.record_count = 0
        self._kept_count = 0
        self._found_shops: set[int] = set()
        """The places of the records of new shops, which the export names and does not describe."""
        self._net = Decimal()

    # --- while the export is converted ----------------------------------------------

    def add(self, answer: Answer) -> None:
        """Keep a message. A shop that the export names but does not describe is left out if it is known."""
        match answer:
            case RecordMessage():
                self._add_record(answer)
            case RejectMessage():
                self._add_reject(answer)
            case LeftOutMessage():
                self.tally.skip(answer)
            case TotalsMessage():
                self._add_total(answer)
            case NoteMessage():
                self._add_note(answer)
            case PreviewMessage():
                self.preview = answer
            case EndMessage():
                self._finish(answer)
            case FormMessage():
                raise ConversionFailed(
                    Message(
                        "converter_asks",
                        "{file} was not loaded: the converter asks, but nobody was asked.",
                        file=self.name,
                    )
                )

    def _add_record(self, answer: RecordMessage) -> None:
        record = bytes(answer.record)
        try:
            counted = _decode_counted(record)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            text = Message(
                "converter_record",
                "{file} was not loaded: the converter wrote a record that is none ({error}).",
                file=self.name,
                error=str(error),
            )
            raise ConversionFailed(text) from error
        self.record_count += 1
        is_bill = counted.kind == "bill"
        if is_bill and counted.amounts and counted.amounts.net is not None:
            self._net += counted.amounts.net
        self.line = answer.line
        if counted.kind == "shop" and isinstance(counted.name, str):
            self.tally.names_of_shops[counted.id] = printable(counted.name)
        if answer.is_found_shop is True:
            if self._is_known(counted.id):
                self.tally.known_shops.append(counted.id)
                return
            self.has_shop_without_zone = self.has_shop_without_zone or counted.timezone is None
            self.tally.new_shops.append(counted.id)
            self._found_shops.add(self._kept_count)
        self.tally.bills += is_bill
        self.tally.shops += counted.kind == "shop"
        self.tally.members += counted.kind == "member"
        if counted.kind == "member" and counted.provider_id:
            self.tally.base_ids.add(counted.provider_id)
        self.tally.bases += counted.kind == "base"
        # Few files have many records, so the latest one is nearly always the right one.
        if not self._files or self._files[-1] != answer.file:
            self._files.append(answer.file)
        self._records.write(b"%d\t%d\t%b\n" % (len(self._files) - 1, answer.line, record))
        self._kept_count += 1

    def _add_reject(self, answer: RejectMessage) -> None:
        bill = None if answer.bill is UNSET else answer.bill
        row = RejectedRow(answer.file, answer.line, answer.reason, answer.detail, bill)
        if self.tally.add(row):
            self.tally.keep_texts(answer.texts)
        self._rejects.write(json.encode(row) + b"\n")

    def _add_total(self, answer: TotalsMessage) -> None:
        place = answer.file, answer.line, answer.column, answer.field
        self.tally.export_totals.append(ExportTotals(*place, answer.stated, answer.computed))

    def _add_note(self, answer: NoteMessage) -> None:
        if answer.text:
            self.notes.append(answer.text)
        self.tally.keep_texts(answer.texts)
        if answer.file is not UNSET and answer.recognised is not UNSET:
            self.tally.recognised[answer.file] = answer.recognised

    def _finish(self, end: EndMessage) -> None:
        self._check_counts(end)
        self.has_other_ids = end.has_other_ids is True
        self.state = None if end.state is UNSET else end.state
        self._records.finish()
        self._rejects.finish()
        self.total = self._records.size

    def _check_counts(self, end: EndMessage) -> None:
        tally = self.tally
        came = (self.record_count, tally.rejected.total(), tally.skipped.total(), len(tally.export_totals))
        said = (end.records, end.rejects, end.left_out, end.totals)
        if (*came, self._net) != (*said, end.net):
            raise ConversionFailed(
                Message(
                    "converter_counts",
                    "{file} was not loaded: its converter says that it wrote {records} records with a net of "
                    "{net}, and {results} other results, but {record_count} records with a net of {net_2}, and "
                    "{results_2} other results, have come. Please report it.",
                    file=self.name,
                    records=f"{end.records:,}",
                    net=f"{end.net:,f}",
                    results=f"{sum(said[1:]):,}",
                    record_count=f"{self.record_count:,}",
                    net_2=f"{self._net:,f}",
                    results_2=f"{sum(came[1:]):,}",
                )
            )

    # --- after that -------------------------------------------------------------------

    def describe_new_shops(self, facts: ShopSettings) -> None:
        """Set what a person said of the new shops. It is in their records when the lines are read again."""
        self._new_shops = facts

    def _described(self, record: bytes) -> bytes:
        shop = self._new_shops.in_record(json.decode(record))
        return json.encode({"providerId": self._base, **shop} if self._base else shop)

    def lines(self) -> Iterator[SourceLine]:
        done = 0
        self.position = lambda: done
        for number, text in enumerate(self._records.lines()):
            if number % LINES_PER_CALL == 0:
                self.on_read()
            done += len(text)
            file, _, rest = text.partition(b"\t")
            line, _, record = rest.partition(b"\t")
            record = record[:-1]
            if number in self._found_shops:
                record = self._described(record)
            yield SourceLine(self._files[int(file)], int(line), record)

    def bill_hours(self, zone: str) -> Counter[int]:
        """Return how many bills were closed in each hour of the day, on the clock of their shops."""
        hours: Counter[int] = Counter()
        clock = ZoneInfo(zone)
        for line in self.lines():
            record = _decode_closed(line.text)
            try:
                moment = datetime.fromisoformat(record.closed_at or "")
            except ValueError:
                # Such a bill has no time that could be counted.
                continue
            if record.kind == "bill":
                hours[moment.astimezone(clock).hour if moment.tzinfo else moment.hour] += 1
        return hours

    def rejects(self) -> Iterator[RejectedRow]:
        for text in self._rejects.lines():
            yield json.decode(text, type=RejectedRow)

    def rejected_rows(self) -> RejectedRows:
        return self.tally.rejected_rows()

    def close(self) -> None:
        self._records.close()
        self._rejects.close()


def convert(
    request: ConversionRequest,
    limits: ConversionLimits,
    *,
    is_known: Callable[[str], bool],
    new_shops: ShopSettings = NOTHING_SET,
    folder: Path | None = None,
    command: Sequence[str] = OWN_CONVERTER,
    on_wait: Callable[[], None] = lambda: None,
    on_progress: Callable[[int], None] = lambda _: None,
    on_records: Callable[[int, int], None] = lambda _records, _line: None,
) -> ConvertedExport:
    """Return the converted export. Its records are in a private file in the folder, or in that of temporary files.

    `on_progress` is called with the rows that were read so far and then, as bills are made of them, `on_records` with
    the records and the line of the latest one. Raise `ConversionFailed` if the export cannot be converted completely,
    and whatever `on_wait` raises.
    """

    def new_export() -> ConvertedExport:
        place = folder or Path(tempfile.gettempdir())
        return ConvertedExport(printable(name_of(request)), place, is_known, new_shops, request.base)

    try:
        return _convert(request, limits, new_export(), command, on_wait, on_progress, on_records)
    except _MemoryOfOthers:
        # A new process has all memory for this export.
        return _convert(request, limits, new_export(), command, on_wait, on_progress, on_records)


def read_form(
    request: ConversionRequest,
    limits: ConversionLimits,
    command: Sequence[str] = OWN_CONVERTER,
    on_wait: Callable[[], None] = lambda: None,
    on_reading: Callable[[int], None] = lambda _: None,
) -> Form:
    """Return the form of the files of a request, with its answers. Raise `ConversionFailed` if there is none.

    `on_reading` is called with how many ways to read the files were compared so far.
    """
    name = printable(name_of(request))
    process = taken(command)
    found: Form | None = None
    try:
        for answer in process.answers(request, limits, on_wait):
            if isinstance(answer, FormMessage):
                found = _decoded_form(answer, name)
            elif isinstance(answer, ProgressMessage) and isinstance(answer.readings, int):
                on_reading(answer.readings)
    finally:
        give_back(process)
    if found is None:
        raise ConversionFailed(
            Message("converter_no_form", "{name} was not read: the converter returned no form.", name=name)
        )
    return found


def _decoded_form(answer: FormMessage, name: str) -> Form:
    try:
        return form_of(bytes(answer.form))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConversionFailed(
            Message(
                "converter_form",
                "{name} was not read: the converter wrote a form that is none ({error}).",
                name=name,
                error=str(error),
            )
        ) from error


class _MemoryOfOthers(Exception):
    """The memory was full in a process that had converted others before, and may not have freed all of theirs."""


def _convert(
    request: ConversionRequest,
    limits: ConversionLimits,
    export: ConvertedExport,
    command: Sequence[str],
    on_wait: Callable[[], None],
    on_progress: Callable[[int], None],
    on_records: Callable[[int, int], None],
) -> ConvertedExport:
    process = taken(command)
    is_first = process.conversions == 0
    try:
        for answer in process.answers(request, limits, on_wait):
            if isinstance(answer, ProgressMessage):
                on_progress(answer.rows)
            else:
                export.add(answer)
                if export.record_count % RECORDS_PER_CALL == 0:
                    on_records(export.record_count, export.line)
    except BaseException as error:
        export.close()
        if isinstance(error, MemoryFull) and not is_first:
            raise _MemoryOfOthers from error
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(export.name) from error
        raise
    finally:
        give_back(process)
    return export
