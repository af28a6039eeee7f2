"""Loads, as the ledger records them and as operators see them: progress, rejected lines, outcome, watched folders."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field, json
from msgspec.structs import asdict

from counterfoil.domain.doubts import DeliveryDoubt
from counterfoil.domain.open_items import KEPT_NAME, MAX_FILES, OTHER_FILES, LoadedFiles, OpenItem, limited
from counterfoil.model.calendar import DAY_MS
from counterfoil.model.control_totals import TotalsReport
from counterfoil.model.text import counted

# --- the progress of a load: rejected lines by position and reason, without their content --

# The store keeps at most this many rejected lines per load. The rejects file contains all lines that the load rejected.
MAX_REMEMBERED = 1_000


class RejectedLine(Struct, frozen=True):
    """The position of a rejected line, and why it was rejected. `fields` are the names of the fields that are wrong."""

    source: str
    line: int
    reason: str
    fields: Sequence[str] = ()


class RejectedRows(Struct, frozen=True):
    """Rows of an export that an import could not convert into lines: the count by reason, and the first rows."""

    reasons: Mapping[str, int] = {}
    first: Sequence[RejectedLine] = ()

    def by_file(self) -> dict[str, int]:
        """Return the number of rows of each file. Of many files, the first rows do not name all."""
        files = Counter(row.source for row in self.first)
        others = sum(self.reasons.values()) - len(self.first)
        if others:
            files[next(iter(files)) if len(files) == 1 else OTHER_FILES] += others
        return dict(files)


class LoadProgress(Struct):
    """The progress of a load, stored with every batch.

    `reasons` maps each reason to the number of lines rejected for it. `new_rejects` are rejected lines that are not
    stored yet, and `stored_rejects` is the number of rejected lines that are already stored.
    """

    number: int
    lines: int = 0
    changed: int = 0
    rejected: int = 0
    finished: bool = False
    reasons: dict[str, int] = field(default_factory=dict)
    rejects_file: str | None = None
    new_rejects: list[RejectedLine] = field(default_factory=list)
    stored_rejects: int = 0
    totals: TotalsReport | None = None
    """Set when the load ends."""
    files: dict[str, int] = field(default_factory=dict)
    """The names of the files that were read, each with the number of lines in the rejects file."""
    file_names: Mapping[str, str] = field(default_factory=dict)
    """The names under which the files of an export were delivered, by those that its lines have. Not all have lines."""
    damaged: set[str] = field(default_factory=set)
    """The files that could not be read completely. Set when the load ends."""
    rows: dict[str, int] = field(default_factory=dict)
    """For each export, the number of rows that could not be converted. The rejects file does not have them."""
    row_reasons: Mapping[str, int] = field(default_factory=dict)
    """The number of these rows by reason. `reasons` has them, too."""
    alarms: Sequence[DeliveryDoubt] = ()
    """The sudden changes in this load. Set when it ends."""
    rejects_path: str = ""
    machine: str = ""

    def loaded_files(self) -> LoadedFiles:
        rejected = {name: count + self.rows.get(name, 0) for name, count in self.files.items()}
        files: dict[str, int | None] = {**self.rows, **rejected, **dict.fromkeys(self.damaged)}
        return files

    def _delivered_files(self) -> LoadedFiles:
        """Return the files that were read, under the names with which they were delivered."""
        files: dict[str, int | None] = dict.fromkeys(self.file_names.values(), 0)
        for name, count in self.loaded_files().items():
            files[self.file_names.get(name, name)] = count
        return files

    def items(self, now: int) -> Iterator[OpenItem]:
        """Yield the open items of this load: rejected lines in the rejects file, and rows of exports."""
        lines = {name: count for name, count in self.files.items() if count}
        if self.rejects_file and lines:
            yield OpenItem(
                # Only a name of ours says which rejects a file has. The operator may use another one again.
                identity=self.rejects_file if KEPT_NAME.match(self.rejects_file) else f"rejects of load {self.number}",
                kind="rejects",
                load=self.number,
                files=limited(lines),
                path=self.rejects_path,
                machine=self.machine,
                reason=_counts_text(Counter(self.reasons) - Counter(self.row_reasons)),
                opened_at=now,
            )
        if self.rows:
            yield OpenItem(
                identity=f"rows of load {self.number}",
                kind="rejects",
                load=self.number,
                files=limited(self.rows),
                reason=_counts_text(Counter(self.row_reasons)),
                opened_at=now,
            )

    def add_reject(self, line: RejectedLine) -> None:
        if self.stored_rejects + len(self.new_rejects) < MAX_REMEMBERED:
            self.new_rejects.append(line)

    def mark_stored(self) -> None:
        """Count the new rejected lines as stored, and forget them."""
        self.stored_rejects += len(self.new_rejects)
        self.new_rejects.clear()

    def values(self, now: int) -> dict[str, Any]:
        """Return the parameters of the statement with which a ledger updates the load's row."""
        files = self._delivered_files()
        named = dict(sorted(files.items())[:MAX_FILES])
        if len(files) > len(named):
            named[OTHER_FILES] = len(files) - len(named)
        return asdict(self) | {
            "now": now,
            "finished_at": now if self.finished else None,
            "reasons": json.encode(self.reasons).decode(),
            "totals": json.encode(self.totals).decode() if self.totals else None,
            "files": json.encode(named).decode(),
            "alarms": json.encode(self.alarms).decode(),
        }

    def reject_values(self) -> Iterator[dict[str, Any]]:
        """Yield the parameters for each rejected line that is not stored yet."""
        for place, line in enumerate(self.new_rejects, self.stored_rejects):
            fields = json.encode(line.fields).decode()
            yield {**asdict(line), "load": self.number, "place": place, "fields": fields}


def _counts_text(reasons: Counter[str]) -> str:
    """Return the most frequent reasons with the number of lines or rows, such as `3 not_json, 2 no_id, 1 other`."""
    named = reasons.most_common(2)
    others = reasons.total() - sum(count for _, count in named)
    texts = [f"{count:,} {reason}" for reason, count in named]
    if others:
        texts.append(counted(others, "other"))
    return ", ".join(texts)


# --- the list of loads ------------------------------------------------------------------

# An unfinished load that has not written anything for this long counts as stopped, because it may have been killed.
STALLED_MS = 120_000


class LoadRow(Struct, frozen=True, kw_only=True):
    """A load: its source, its progress, and the number of rejected lines by reason.

    `rejects_file` is the name of the rejects file, which is in the folder `rejects` of the store unless `load
    --rejects` named a different file. `files` are the files that it read, `alarms` the sudden changes in them.
    `is_accepted` says that the operator had it loaded although it differed from earlier ones, and `is_stopped` that it
    has recorded that it ended with an error.
    """

    number: int
    source: str
    started_at: int
    seen_at: int
    finished_at: int | None
    lines: int
    changed: int
    rejected: int
    reasons: dict[str, int]
    rejects_file: str | None
    files: LoadedFiles
    alarms: list[DeliveryDoubt]
    is_accepted: bool
    horizon: int | None
    """The horizon when it began, which is below its stamps, or None for a load of an older version."""
    undone_at: int | None
    is_stopped: bool

    @property
    def finished(self) -> bool:
        return self.finished_at is not None

    @property
    def has_repeated(self) -> bool:
        """Whether some of its records were stored before with the same content."""
        return self.lines > self.changed + self.rejected

    def idle_ms(self, now: int) -> int:
        """Return the time since it last wrote to the store."""
        return max(0, now - self.seen_at)


def load_state(load: LoadRow, now: int) -> str:
    """Return `finished`, `running`, `undone` or `stopped`. So is a load that has not written for STALLED_MS."""
    if load.undone_at is not None:
        return "undone"
    if load.finished_at is not None:
        return "finished"
    return "stopped" if load.is_stopped or now - load.seen_at > STALLED_MS else "running"


def outcome_of(load: LoadRow, now: int) -> str:
    """Return the state of a load, or `all_rejected` or `some_rejected` if it has finished and rejected lines."""
    state = load_state(load, now)
    if state != "finished" or not load.rejected:
        return state
    return "all_rejected" if load.rejected >= load.lines else "some_rejected"


def load_row(row: Sequence[Any]) -> LoadRow:
    values = dict(zip(LoadRow.__struct_fields__, (*row, False), strict=True))
    decoded = {
        # The time is stored as a negative number if the load has ended with an error.
        "seen_at": abs(values["seen_at"]),
        "is_accepted": bool(values["is_accepted"]),
        "is_stopped": values["seen_at"] < 0,
        "reasons": json.decode(values["reasons"], type=dict[str, int]),
        "files": json.decode(values["files"], type=dict[str, int | None]),
        "alarms": json.decode(values["alarms"], type=list[DeliveryDoubt]),
    }
    return LoadRow(**values | decoded)


# --- watched folders ------------------------------------------------------------------

# How often a watcher reports to the store, and how long after its last report it counts as stopped.
HEARTBEAT_MS, STALE_HEARTBEAT_MS = 10_000, 120_000
# A folder whose watcher has not run for this long counts as no longer in use.
FORGET_FOLDER_MS = 30 * DAY_MS


class WatchedFolder(Struct, frozen=True):
    """A spool folder that `load --watch` watches: when its watcher was last seen, and when a file last arrived."""

    name: str
    seen_at: int
    delivered_at: int
    files: int = 0
    quarantined: int = 0
    is_stopped: bool = False
    problem: str = ""
    """Why the watcher cannot take what was delivered."""

    def is_stale(self, now_ms: int) -> bool:
        """Return whether the folder's watcher was stopped or no longer reports."""
        return self.is_stopped or now_ms - self.seen_at > STALE_HEARTBEAT_MS

    def is_silent(self, now_ms: int, after_min: int) -> bool:
        """Return whether nothing has been delivered for `after_min` minutes; 0 turns this check off."""
        return after_min > 0 and now_ms - self.delivered_at > after_min * 60_000
