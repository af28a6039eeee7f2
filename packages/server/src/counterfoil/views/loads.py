"""Loads: their source, progress and state, and the lines that one of them rejected."""

import re
from collections.abc import Mapping, Sequence

from counterfoil.domain.doubts import DeliveryDoubt
from counterfoil.domain.loads import LoadRow, RejectedLine, load_state, outcome_of
from counterfoil.domain.open_items import OTHER_FILES, OpenItem
from counterfoil.model.messages import duration
from counterfoil.model.text import printable, translatable
from counterfoil.operator_reads import OperatorReads
from counterfoil.program.columns import DATA, ListColumn, json_row

# The store remembers this many loads, and this many rejected lines of each. The rejects file has all of them.
MOST_LOADS, MOST_REJECTS = 100, 1_000
# A list names this many files of a load.
MOST_NAMED = 3
# The records of a file that was brought in are named after it and after the number of the upload.
ADDED_BY_CONSOLE = re.compile(r"\.[0-9a-f]{12}\.ndjson$")


def find(reads: OperatorReads, number: int) -> LoadRow | None:
    return next((load for load in reads.loads(MOST_LOADS) if load.number == number), None)


def columns(now: int) -> Sequence[ListColumn[LoadRow]]:
    return (
        ListColumn("number", kind="number", terminal="load"),
        ListColumn("startedAt", kind="time", terminal="started", page=translatable("Started")),
        ListColumn("seenAt", kind="time", without=("csv",)),
        ListColumn("finishedAt", kind="time"),
        ListColumn("source"),
        ListColumn(
            "files",
            lambda load: {name: rejected for name, rejected in load.files.items() if name},
            terminal="files",
            page=translatable("Files"),
            text=file_names,
            without=("csv",),
        ),
        ListColumn("moreFiles", lambda load: load.files.get(OTHER_FILES, 0), without=("csv",)),
        ListColumn("alarms", lambda load: alarms_json(load.alarms), without=("csv",)),
        ListColumn(
            "state",
            lambda load: load_state(load, now),
            terminal="state",
            page=translatable("State"),
            text=lambda load: _outcome_text(load, now),
        ),
        ListColumn("accepted", lambda load: load.is_accepted),
        ListColumn(
            "took",
            lambda load: (load.finished_at or load.seen_at) - load.started_at,
            kind="number",
            page=translatable("Duration"),
            without=DATA,
        ),
        ListColumn("lines", kind="number", terminal="lines", page=translatable("Lines")),
        ListColumn("changed", kind="number", terminal="changed", page=translatable("Changed")),
        ListColumn("rejected", kind="number", terminal="rejected", page=translatable("Rejected")),
        ListColumn("reasons", without=("csv",)),
        ListColumn("rejectsFile", without=("csv",)),
    )


def _outcome_text(load: LoadRow, now: int) -> str:
    state = "all lines rejected" if outcome_of(load, now) == "all_rejected" else load_state(load, now)
    return f"{state}, accepted" if load.is_accepted else state


def file_names(load: LoadRow) -> str:
    """Return the names of the files of a load, the first few of them if there are many."""
    names = [upload_name(name) for name in load.files if name]
    more = len(names[MOST_NAMED:]) + (load.files.get(OTHER_FILES) or 0)
    return printable(
        ", ".join(names[:MOST_NAMED]) + (f" and {more:,} more" if more else "") or upload_name(load.source)
    )


def upload_name(name: str) -> str:
    """Return the name under which somebody has brought in a file, without what the console adds to it."""
    return ADDED_BY_CONSOLE.sub("", name)


_ALARMS: Sequence[ListColumn[DeliveryDoubt]] = (
    ListColumn("measure"),
    ListColumn("field", lambda alarm: alarm.field or None),
    ListColumn("records", lambda alarm: alarm.count),
    ListColumn("of", lambda alarm: alarm.total),
    ListColumn("share", lambda alarm: round(alarm.share, 4)),
    ListColumn("highestBefore", lambda alarm: round(alarm.before, 4)),
)


def alarms_json(alarms: Sequence[DeliveryDoubt]) -> list[dict[str, object]]:
    return [json_row(_ALARMS, alarm) for alarm in alarms]


STATES = {"waiting": "", "accepted": ", accepted: waits for the watcher", "gone": ", file is gone"}


def items(now: int) -> Sequence[ListColumn[OpenItem]]:
    return (
        ListColumn("number", kind="number", terminal="item", page=translatable("Item")),
        ListColumn(
            "kind", terminal="kind", page=translatable("What"), text=lambda item: item.kind + STATES[item.state]
        ),
        ListColumn("state"),
        ListColumn("decision"),
        ListColumn(
            "openedAt",
            kind="time",
            terminal="waiting",
            page=translatable("Waiting"),
            text=lambda item: str(duration(now - item.opened_at)),
        ),
        ListColumn("load", kind="number", terminal="load"),
        ListColumn("lines", kind="number", terminal="lines", page=translatable("Lines")),
        ListColumn("source", terminal="source", page=translatable("Source")),
        ListColumn("files", lambda item: dict(item.files), without=("csv",)),
        ListColumn("reason", terminal="reason", page=translatable("Reason")),
        ListColumn("path", terminal="file", page=translatable("File")),
        ListColumn("paths", lambda item: [part.path for part in item.parts], without=("csv",)),
        ListColumn("machine", lambda item: item.machine or None),
    )


def rejects(meanings: Mapping[str, object]) -> Sequence[ListColumn[RejectedLine]]:
    """Return the columns of rejected lines. Their text may contain personal data, so only the rejects file has it."""
    return (
        ListColumn("source", terminal="source", page=translatable("Source")),
        ListColumn("line", kind="number", terminal="line", page=translatable("Line")),
        ListColumn("reason", terminal="reason", page=translatable("Reason")),
        ListColumn("meaning", lambda reject: meanings.get(reject.reason), without=("json", "console")),
        ListColumn("fields", lambda reject: list(reject.fields), terminal="fields", page=translatable("Fields")),
    )
