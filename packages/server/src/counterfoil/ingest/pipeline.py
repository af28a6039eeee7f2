"""Loads source records: normalises them, rejects those that cannot be used, and writes the others in batches.

A batch is one transaction (on Citus: one per shop and base). If the process dies, load the same source again: records
that are already written change nothing.
"""

import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from msgspec import Struct, field, json
from msgspec.structs import replace

from counterfoil.domain.changes import Change, EncodedBill, KnownFacts, Outcome, RecordKey
from counterfoil.domain.doubts import DeliveryDoubt
from counterfoil.domain.forgetting import Contacts, RecordEraser, mark_of
from counterfoil.domain.intake import DeliveryCounts, Intake, alarms_of, with_load
from counterfoil.domain.loads import LoadProgress, RejectedLine
from counterfoil.domain.replacements import ReplacementGuard
from counterfoil.domain.tokens import Pseudonyms
from counterfoil.ingest.converters import ConverterProcess, Converters
from counterfoil.ingest.erasing import erased_line
from counterfoil.ingest.fields import OTHER_FIELDS, FieldCounts, Findings, check_bill_without_shop, check_record
from counterfoil.ingest.lines import (
    OTHER_BASE,
    OTHER_BILL,
    UNKNOWN_FIELD,
    UNKNOWN_SHOP,
    UNREADABLE_VALUE,
    Reader,
    Rejected,
    SourceLine,
    make_reject,
    parse_record,
)
from counterfoil.ingest.sources import Source, SourceError
from counterfoil.machine.files import make_folder, open_output
from counterfoil.machine.operator import machine_name
from counterfoil.model.control_totals import MAX_STORED_DAYS, ControlTotals, CountedBill
from counterfoil.model.pos_values import MILLION
from counterfoil.model.text import printable
from counterfoil.ports import LoadLedger, StoreMismatch, StoreUnavailable

REWRITE_BATCH = 500
# Write a batch early once its lines have this many bytes, because the whole batch is held in memory.
BATCH_BYTES = 4 * 1024 * 1024
# Store at most this many unknown or unreadable fields of a rejected line.
MAX_FIELDS = 10
# Keep the facts of at most this many shops in memory.
MAX_KNOWN_SHOPS = 10_000


# The reasons for which a ledger rejects a record.
_REJECTED = {Outcome.UNKNOWN_SHOP: UNKNOWN_SHOP, Outcome.OTHER_BILL: OTHER_BILL, Outcome.OTHER_BASE: OTHER_BASE}

_FIELD_PATH = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*(\.[A-Za-z_$][A-Za-z0-9_$-]*)*")
_LONG_NUMBER = re.compile("[0-9]{5}")


class Summary(Struct, kw_only=True):
    """The result of a load."""

    source: str
    load: int = 0
    """The number of the load, or 0 if it is only a check."""
    lines: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    fields: FieldCounts = field(default_factory=FieldCounts)
    totals: ControlTotals = field(default_factory=ControlTotals)
    """What the bills add up to that were not rejected, whether they change the store or not."""
    guard: ReplacementGuard = field(default_factory=ReplacementGuard)
    """The stored bills that would be replaced by other ones. If there are too many, the load was stopped."""
    doubts: list[DeliveryDoubt] = field(default_factory=list)
    """What is odd about the load. Known when it ends."""

    @property
    def changed(self) -> int:
        return sum(self.outcomes[outcome.value] for outcome in (Outcome.ADDED, Outcome.CHANGED, Outcome.REMOVED))

    def counts(self) -> DeliveryCounts:
        """Return the counts that later loads are compared with."""
        fields, unknown = self.fields, Counter[str]()
        for (kind, path), count in fields.unknown.items():
            unknown[f"{kind}: {_storable(path)}"] += count
        return DeliveryCounts(
            lines=self.lines,
            rejected=self.rejected.total(),
            bills=fields.bills,
            undated=fields.lacking["date"],
            no_items=fields.lacking["items"],
            no_amounts=fields.lacking["amounts"],
            records=dict(fields.records),
            unreadable={f"{kind}: {path}": count for (kind, path), count in fields.unreadable.items()},
            unknown=dict(unknown),
            with_net=self.totals.with_net,
            net=self.totals.size // MILLION,
        )


def _storable(path: str) -> str:
    """Return the name of a field. It may be a phone number in a broken export, so not all names are stored."""
    is_storable = _FIELD_PATH.fullmatch(path) and not _LONG_NUMBER.search(path)
    return path if is_storable else OTHER_FIELDS


def _bills(changes: Sequence[Change]) -> list[CountedBill]:
    return [change.counted for change in changes if type(change) is EncodedBill]


class _Batch(Struct):
    """Lines and the changes that they describe, which are written together."""

    lines: list[SourceLine] = []
    changes: list[Change] = []
    size: int = 0
    has_shops: bool = False

    def add(self, line: SourceLine, change: Change) -> None:
        self.lines.append(line)
        self.changes.append(change)
        self.size += len(line.text)
        if type(change) is not EncodedBill and change.key[1] == "shop":
            self.has_shops = True


class RejectsFile:
    """The rejects file, created with the first reject. It has raw records, so only its owner, or group, can read it."""

    def __init__(self, path: Path, *, is_shared: bool = False) -> None:
        self.path = path
        self._mode = 0o640 if is_shared else 0o600
        self._file: IO[bytes] | None = None

    def add(self, line: SourceLine, rejected: Rejected) -> None:
        self.write(make_reject(line.source, line.number, rejected, line.text))

    def write(self, reject: Struct) -> None:
        if self._file is None:
            make_folder(self.path.parent)
            self._file = open_output(self.path, mode=0o600)
            # The path may also name a device or a pipe, whose permissions must not be changed.
            if stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
                os.fchmod(self._file.fileno(), self._mode)
        self._file.write(json.encode(reject) + b"\n")

    @property
    def used(self) -> bool:
        return self._file is not None

    def flush(self) -> None:
        if self._file:
            self._file.flush()

    def close(self) -> None:
        if self._file:
            self._file.close()


class LoadRules(Struct, frozen=True, kw_only=True):
    """How a load treats what it reads."""

    batch: int = 1000
    """The number of records that are written together."""
    strict: bool = False
    """Whether a record with an unknown field or an unreadable value is rejected."""
    is_guarded: bool = False
    """Whether the load is stopped before it replaces many stored bills by other ones."""
    finishes_damaged: bool = False
    """Whether the load counts as finished even if a file was damaged, because the file is moved to quarantine."""


class Pipeline:
    """Loads one source into the books."""

    def __init__(
        self,
        ledger: LoadLedger,
        pseudonyms: Pseudonyms,
        rejects: RejectsFile,
        rules: LoadRules,
        on_progress: Callable[[Summary], None] = lambda _: None,
        processes: Sequence[ConverterProcess] = (),
    ) -> None:
        self._ledger = ledger
        self._rejects = rejects
        self._rules = rules
        self._on_progress = on_progress
        self._known: dict[str, KnownFacts | None] = {}
        self._reader = Reader(pseudonyms, self._facts)
        self._forgotten = RecordEraser(
            lambda member_id: mark_of(pseudonyms.member_token(member_id)) in ledger.forgotten, Contacts(None)
        )
        self._converters = Converters(pseudonyms, self._facts, processes, rules.batch)
        self._damage: SourceError | None = None
        self._progress = LoadProgress(0)
        self._source = Source("", None)
        self._rows_added = 0
        # The files that were read, each with the number of rejected lines.
        self._files: dict[str, int] = {}
        self._lines_read: Counter[str] = Counter()

    def load(self, source: Source) -> Summary:
        """Load the source. If it is damaged, load the readable part and then raise the error."""
        summary = Summary(source=source.name, guard=ReplacementGuard(is_export=source.is_export))
        self._rewrite_bills()
        self._source = source
        self._progress = self._ledger.begin_load(source.name)
        self._progress.file_names = source.file_names
        summary.load = self._progress.number
        try:
            self._load(source, summary)
        except BaseException:
            # If the store cannot be written, the load is shown as stopped only after a while, as if it were killed.
            with suppress(StoreUnavailable, StoreMismatch):
                self._ledger.stop_load(self._progress.number, summary.changed)
            raise
        return summary

    def _load(self, source: Source, summary: Summary) -> None:
        for batch in self._batches(source, summary):
            self._write(batch, summary)
            self._rejects.flush()
            self._on_progress(summary)
        is_stopped = summary.guard.is_exceeded
        self._progress.finished = (self._damage is None or self._rules.finishes_damaged) and not is_stopped
        self._progress.damaged = {printable(path.name) for path in source.damage}
        self._progress.totals = summary.totals.report(MAX_STORED_DAYS)
        summary.doubts = [summary.guard.doubt] if is_stopped else self._compare(summary.counts())
        self._progress.alarms = summary.doubts
        self._apply([], summary)
        if is_stopped:
            self._ledger.stop_load(self._progress.number, summary.changed)
        else:
            complete = self._lines_read.keys() - self._progress.damaged
            self._ledger.close_loaded({name: self._lines_read[name] for name in complete})
        self._rejects.close()
        self._on_progress(summary)
        if self._damage:
            raise self._damage

    def _compare(self, counts: DeliveryCounts) -> list[DeliveryDoubt]:
        """Store the counts of this load, and return the alarms that it raises."""
        alarms: list[DeliveryDoubt] = []

        def change(intake: Intake, now_ms: int) -> Intake:
            alarms[:] = alarms_of(intake, counts)
            return with_load(intake, counts, now_ms)

        self._ledger.change_intake(change)
        return alarms

    def _batches(self, source: Source, summary: Summary) -> Iterator[_Batch]:
        batch = _Batch()
        for group in self._converters.convert(self._readable(source)):
            versions = group.versions()
            is_current = self._are_current(versions)
            for index, line in enumerate(group.lines):
                change = group.changes[index] if is_current else None
                summary.lines += 1
                try:
                    record = None if change else parse_record(line.text)
                    is_bill = isinstance(change, EncodedBill) or (record is not None and record.get("kind") == "bill")
                    if is_bill and batch.has_shops:
                        # Reading a bill requires the stored facts of its shop, so pending shops are written first.
                        yield batch
                        batch, is_current = _Batch(), self._are_current(versions)
                    if change and is_current:
                        self._count(line, change, group.findings.get(index), summary.fields)
                        batch.add(line, change)
                    else:
                        batch.add(line, self._change(line, record or parse_record(line.text), summary.fields))
                except Rejected as rejected:
                    self._reject(line, rejected, summary)
                if len(batch.lines) >= self._rules.batch or batch.size >= BATCH_BYTES:
                    yield batch
                    batch, is_current = _Batch(), self._are_current(versions)
        yield batch

    def _are_current(self, versions: Iterable[tuple[str, int]]) -> bool:
        """Return whether all shops still have these versions of their facts."""
        for shop_id, version in versions:
            known = self._facts(shop_id)
            if known is None or known.version != version:
                return False
        return True

    def _change(self, line: SourceLine, record: dict[str, Any], counts: FieldCounts) -> Change:
        """Return the change that a record describes, and count it."""
        try:
            change = self._reader.change(record, len(line.text))
        except Rejected as rejected:
            if rejected.reason == UNKNOWN_SHOP:
                # The shop may be missing only because it was rejected, so the bill's own mistakes are reported too.
                self._check_fields("bill", check_bill_without_shop(record), counts, line)
            raise
        self._count(line, change, check_record(record, change), counts)
        return change

    def _count(self, line: SourceLine, change: Change, findings: Findings | None, counts: FieldCounts) -> None:
        """Count what a record was converted to, and its fields."""
        _, kind, _ = change.key
        self._check_fields(kind, findings, counts, line)
        if isinstance(change, EncodedBill):
            counts.bills += 1
            if change.lacks:
                counts.lacking.update(change.lacks)

    def _check_fields(self, kind: str, findings: Findings | None, counts: FieldCounts, line: SourceLine) -> None:
        """Count the unknown and unreadable fields of a record. In a strict load, raise `Rejected` if there are any."""
        counts.records[kind] += 1
        if findings:
            counts.add(kind, findings, line.source, line.number)
            if self._rules.strict:
                reason = UNKNOWN_FIELD if findings.unknown else UNREADABLE_VALUE
                raise Rejected(reason, sorted(findings.unknown) or sorted(findings.unreadable))

    def _readable(self, source: Source) -> Iterator[SourceLine]:
        """Yield the lines. If the source is damaged, stop and keep the error, which `load` raises at the end."""
        try:
            for line in source.lines():
                self._lines_read[line.source] += 1
                self._files.setdefault(line.source, 0)
                yield line
        except SourceError as error:
            self._damage = error

    def _write(self, batch: _Batch, summary: Summary) -> None:
        """Write a batch. Repeat this for bills whose shop's facts have changed in the meantime, until all are written.

        Later changes to such a bill are retried after it, so that a removal still comes last. A bill whose shop has
        disappeared is rejected.
        """
        while batch.lines:
            outcomes = self._apply(batch.changes, summary)
            if summary.guard.is_exceeded:
                # The rest of the source is only compared, to say how many bills would be replaced.
                summary.totals.add(_bills(batch.changes))
                return
            self._source.reject_score = max(0, self._source.reject_score - 100 * len(outcomes))
            to_retry = self._count_outcomes(batch, outcomes, summary)
            if batch.has_shops:
                self._known.clear()
                self._rewrite_bills()
            batch = to_retry

    def _count_outcomes(self, batch: _Batch, outcomes: list[Outcome], summary: Summary) -> _Batch:
        """Count the outcomes of a batch; return the changes that have to be retried."""
        to_retry = _Batch()
        written: list[Change] = []
        outdated: set[RecordKey] = set()
        for line, change, outcome in zip(batch.lines, batch.changes, outcomes, strict=True):
            if outcome is Outcome.FACTS_MOVED or (outdated and change.key in outdated):
                outdated.add(change.key)
                self._known.pop(change.key[0], None)
                try:
                    # The size was checked before, with headroom for a longer channel name.
                    to_retry.add(line, self._reader.change(parse_record(line.text), 0))
                except Rejected as rejected:
                    self._reject(line, rejected, summary)
            elif outcome in _REJECTED:
                self._reject(line, Rejected(_REJECTED[outcome]), summary)
            else:
                summary.outcomes[outcome.value] += 1
                written.append(change)
        summary.totals.add(_bills(written))
        return to_retry

    def _apply(self, changes: list[Change], summary: Summary) -> list[Outcome]:
        """Write changes together with the progress of the load."""
        progress = self._progress
        rows = self._source.rejected_rows()
        for row in rows.first[self._rows_added :]:
            progress.add_reject(row)
        self._rows_added = len(rows.first)
        reasons = summary.rejected + Counter(rows.reasons)
        progress.lines = summary.lines + sum(rows.reasons.values())
        progress.changed = summary.changed
        progress.rejected = reasons.total()
        progress.reasons = dict(reasons)
        progress.rejects_file = printable(self._rejects.path.name) if self._rejects.used else None
        progress.rejects_path, progress.machine = str(self._rejects.path.absolute()), machine_name()
        progress.files = self._files
        # Rows of a file that is moved to quarantine are in that file.
        progress.rows = {} if self._rules.finishes_damaged else rows.by_file()
        progress.row_reasons = rows.reasons
        outcomes = self._ledger.apply(changes, progress, summary.guard if self._rules.is_guarded and changes else None)
        if not (changes and summary.guard.is_exceeded):
            progress.mark_stored()
        return outcomes

    def _facts(self, shop_id: str) -> KnownFacts | None:
        if shop_id not in self._known:
            if len(self._known) >= MAX_KNOWN_SHOPS:
                self._known.clear()
            self._known[shop_id] = self._ledger.facts(shop_id)
        return self._known[shop_id]

    def _rewrite_bills(self) -> None:
        while self._ledger.rewrite_bills(REWRITE_BATCH):
            pass

    def _reject(self, line: SourceLine, rejected: Rejected, summary: Summary) -> None:
        if self._ledger.forgotten:
            # A rejects file keeps the text of the line.
            kept = erased_line(line.text, self._forgotten)
            if kept is None:
                summary.outcomes[Outcome.FORGOTTEN.value] += 1
                return
            line = replace(line, text=kept)
        self._rejects.add(line, rejected)
        self._source.reject_score += 1
        self._files[line.source] += 1
        summary.rejected[rejected.reason] += 1
        fields = [_storable(path) for path in rejected.fields[:MAX_FIELDS]]
        self._progress.add_reject(RejectedLine(line.source, line.number, rejected.reason, fields))
