"""Compares the times of the first rows of a file with the hours at which the bills of the sample were closed."""

from collections.abc import Collection

from counterfoil.importing import values as cell_values
from counterfoil.importing.mapping import ImportMapping
from counterfoil.importing.results import ImportFailed
from counterfoil.importing.sentences import sentence
from counterfoil.importing.sheets import Sheet, TableRow
from counterfoil.importing.values import UnreadableCell, shown

HOURS = 24
FEWEST_UNUSED = 8
"""A till that is used at nearly all hours has no usual ones."""
MARGIN = 2
"""So many hours earlier or later are not unusual yet, as in the week before a feast."""
FEWEST_OUTSIDE, ONE_IN = 5, 4
_MINUTE = len("2026-11-14T18:05")
_SECOND = len("2026-11-14T18:05:00")


def hour_of(time: str) -> int | None:
    """Return the hour of a time as ISO-8601, or None if it has no time of day, or an offset."""
    is_local = len(time) in (_MINUTE, _SECOND) and time[10] == "T"
    return int(time[11:13]) if is_local else None


def usual_hours(hours: Collection[int]) -> list[int]:
    """Return the first and the last hour of those that are used, or nothing if nearly all are.

    The last one may be after midnight, and then it is smaller than the first one.
    """
    used = sorted(set(hours))
    if not used:
        return []
    gaps = []
    for place, hour in enumerate(used):
        following = used[(place + 1) % len(used)]
        unused = (following - hour - 1) % HOURS
        gaps.append((unused, following, hour))
    unused, first, last = max(gaps)
    return [first, last] if unused >= FEWEST_UNUSED else []


class HourCheck:
    """The times of the first rows of a sheet, beside the usual hours of the mapping."""

    def __init__(self, mapping: ImportMapping, sheet: Sheet) -> None:
        self._sheet = sheet
        self._dates = mapping.dates
        source = mapping.bill.fields.get("closedAt")
        self._names = source.columns if source else ()
        is_checked = bool(mapping.checks.hours and self._names) and mapping.dates.timezone is None
        self._hours = mapping.checks.hours if is_checked and set(self._names) <= set(sheet.columns) else ()
        self._rows = 0
        self._outside: list[tuple[int, str, int]] = []

    def add(self, row: TableRow) -> None:
        if not self._hours:
            return
        columns = self._sheet.columns
        cell = " ".join(row.cells[columns[name]] for name in self._names).strip()
        try:
            time = cell_values.read_time(cell, self._dates, self._dates.order or "ymd", None, None)
        except UnreadableCell:
            # Its bill is rejected.
            return
        hour = hour_of(time)
        if hour is None:
            return
        self._rows += 1
        if self._is_outside(hour):
            self._outside.append((row.line, cell, hour))

    def _is_outside(self, hour: int) -> bool:
        first, last = self._hours
        length = (last - first) % HOURS + 2 * MARGIN
        return (hour - first + MARGIN) % HOURS > length

    def finish(self) -> None:
        """Raise `ImportFailed` if many times are far outside the usual hours."""
        if len(self._outside) < FEWEST_OUTSIDE or len(self._outside) * ONE_IN < self._rows:
            return
        line, cell, _ = self._outside[0]
        first, last = self._hours
        raise ImportFailed(
            sentence(
                "{sheet} has the time {cell} on line {line}, and {count} of its first {rows} rows are far from the "
                "hours of the sample, {first}:00 to {last}:59. The times may be in UTC, lack AM and PM, or be only "
                "days. Export the file again with local times. If they are right, change checks.hours in the mapping.",
                sheet=self._sheet.name,
                cell=shown(cell),
                line=f"{line:,}",
                count=f"{len(self._outside):,}",
                rows=f"{self._rows:,}",
                first=f"{first:02}",
                last=f"{last:02}",
            )
        )
