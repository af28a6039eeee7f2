"""The parts of a load's summary about problems with fields, incomplete bills, and sudden changes."""

from collections import Counter
from collections.abc import Mapping, Sequence

from counterfoil.cli.terminal import display_width
from counterfoil.domain.intake import IntakeAlarm, describe
from counterfoil.ingest.fields import FieldCounts, suggestion
from counterfoil.text import counted

# The printed summary is kept short; `--json` lists every field.
MAX_ROWS = 12
UNKNOWN = "unknown field"


def field_rows(counts: FieldCounts, *, with_lines: bool = False) -> list[tuple[str, str]]:
    """Return the rows of the summary about unknown fields, unreadable values and incomplete bills.

    With `with_lines`, each row about a field names the source and the line number of the first affected record.
    """
    unknown, unreadable = _most_common(counts.unknown), _most_common(counts.unreadable)
    names = [f"{kind}: {path}" for (kind, path), _ in (*unknown[:MAX_ROWS], *unreadable[:MAX_ROWS])]
    width = max(map(display_width, names), default=0)
    rows = []
    for label, found in ((UNKNOWN, unknown), ("unreadable", unreadable)):
        rows += _rows(label, found, width, counts.first if with_lines else {})
    lacking = [
        f"{count:,} without {what} ({count / counts.bills:.1%})"
        for what, count in (
            ("a date", counts.without_date),
            ("items", counts.without_items),
            ("amounts", counts.without_amounts),
        )
        if count
    ]
    return [*rows, ("bills", f"{counts.bills:,} read, {', '.join(lacking)}")] if lacking else rows


def _most_common(counts: Counter[tuple[str, str]]) -> list[tuple[tuple[str, str], int]]:
    """Return the fields with their counts, most frequent first, then by kind and name."""
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))


def _rows(
    label: str,
    found: Sequence[tuple[tuple[str, str], int]],
    width: int,
    first: Mapping[tuple[str, str], tuple[str, int]],
) -> list[tuple[str, str]]:
    rows = []
    for (kind, path), count in found[:MAX_ROWS]:
        name = f"{kind}: {path}"
        padding = " " * (width - display_width(name))
        meant = suggestion(kind, path) if label == UNKNOWN else None
        hint = f" (did you mean {meant}?)" if meant else ""
        source, line = first.get((kind, path), ("", 0))
        where = f", first in {source} line {line:,}" if source else ""
        rows.append((label, f"{name}{padding}  in {counted(count, 'record')}{where}{hint}"))
    if len(found) > MAX_ROWS:
        rows.append((label, f"{len(found) - MAX_ROWS:,} more; --json lists them"))
    return rows


def field_view(counts: FieldCounts) -> dict[str, object]:
    """Return the unknown fields, unreadable values and incomplete bills as `--json` prints them."""
    return {
        "unknownFields": [
            {**_view(counts, kind, path, count), "didYouMean": suggestion(kind, path)}
            for (kind, path), count in _most_common(counts.unknown)
        ],
        "unreadableValues": [
            _view(counts, kind, path, count) for (kind, path), count in _most_common(counts.unreadable)
        ],
        "bills": {
            "read": counts.bills,
            "withoutDate": counts.without_date,
            "withoutItems": counts.without_items,
            "withoutAmounts": counts.without_amounts,
        },
    }


def _view(counts: FieldCounts, kind: str, path: str, count: int) -> dict[str, object]:
    source, line = counts.first[kind, path]
    return {"kind": kind, "field": path, "records": count, "firstSource": source, "firstLine": line}


def alarm_rows(alarms: Sequence[IntakeAlarm]) -> list[tuple[str, str]]:
    """Return the rows of the summary about sudden changes."""
    return _shortened("ALARM", [str(describe(alarm)) for alarm in alarms])


def alarm_view(alarms: Sequence[IntakeAlarm]) -> list[dict[str, object]]:
    """Return the sudden changes as `--json` prints them."""
    return [
        {
            "measure": alarm.measure,
            "field": alarm.field or None,
            "records": alarm.count,
            "of": alarm.total,
            "share": round(alarm.share, 4),
            "highestBefore": round(alarm.before, 4),
        }
        for alarm in alarms
    ]


def _shortened(label: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    rows = [(label, text) for text in texts[:MAX_ROWS]]
    if len(texts) > MAX_ROWS:
        rows.append((label, f"{len(texts) - MAX_ROWS:,} more; --json lists them"))
    return rows
