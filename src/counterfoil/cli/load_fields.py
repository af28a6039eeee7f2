"""The parts of a load's summary about unused fields, incomplete bills, and sudden changes since earlier loads."""

from collections import Counter
from collections.abc import Sequence

from counterfoil.domain.intake import IntakeAlarm, describe
from counterfoil.ingest.fields import FieldCounts, suggestion

# The printed summary is kept short; `--json` lists every field.
MAX_ROWS = 12
UNKNOWN = "unknown field"


def field_rows(counts: FieldCounts) -> list[tuple[str, str]]:
    """Return the rows of the summary about unknown fields, unreadable values and incomplete bills."""
    rows = [*_rows(UNKNOWN, counts.unknown), *_rows("unreadable", counts.unreadable)]
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


def _rows(label: str, counts: Counter[tuple[str, str]]) -> list[tuple[str, str]]:
    shown = counts.most_common(MAX_ROWS)
    names = [f"{kind}: {path}" for (kind, path), _ in shown]
    width = max(map(len, names), default=0)
    rows = []
    for name, ((kind, path), count) in zip(names, shown, strict=True):
        meant = suggestion(kind, path) if label == UNKNOWN else None
        hint = f" (did you mean {meant}?)" if meant else ""
        rows.append((label, f"{name.ljust(width)}  in {count:,} {'record' if count == 1 else 'records'}{hint}"))
    if len(counts) > MAX_ROWS:
        rows.append((label, f"{len(counts) - MAX_ROWS:,} more; --json lists them"))
    return rows


def field_view(counts: FieldCounts) -> dict[str, object]:
    """Return the same information as `--json` prints it."""
    return {
        "unknownFields": [
            {"kind": kind, "field": path, "records": count, "didYouMean": suggestion(kind, path)}
            for (kind, path), count in counts.unknown.most_common()
        ],
        "unreadableValues": [
            {"kind": kind, "field": path, "records": count} for (kind, path), count in counts.unreadable.most_common()
        ],
        "bills": {
            "read": counts.bills,
            "withoutDate": counts.without_date,
            "withoutItems": counts.without_items,
            "withoutAmounts": counts.without_amounts,
        },
    }


def alarm_rows(alarms: Sequence[IntakeAlarm]) -> list[tuple[str, str]]:
    """Return the rows of the summary about sudden changes."""
    return _shortened("ALARM", [describe(alarm) for alarm in alarms])


def alarm_view(alarms: Sequence[IntakeAlarm]) -> list[dict[str, object]]:
    """Return the sudden changes in the form that `--json` prints."""
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
