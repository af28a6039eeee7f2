"""The usage of a key for `counterfoil keys show`: requests and errors in the last 7 days, and the state of its copy."""

from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, to_builtins

from counterfoil import bootstrap
from counterfoil.checks.copies import CopyRow, copy_rows
from counterfoil.checks.key_days import KeyDay, key_days
from counterfoil.cli.terminal import DisplayColumn, echo, print_table
from counterfoil.domain.access import Key
from counterfoil.domain.activity import ShopActivity
from counterfoil.domain.calendar import DAY_MS, days_until, from_ms, iso_utc, thai_day, to_ms
from counterfoil.domain.messages import duration
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.settings import Settings
from counterfoil.text import counted

DAYS = 7
_VERDICTS = {
    "fresh": "up to date",
    "behind": "behind",
    "gap": "gap",
    "reading": "pass not finished",
    "never": "never read",
}
_COPY_COLUMNS = (
    DisplayColumn("shop"),
    DisplayColumn("copy"),
    DisplayColumn("complete until"),
    DisplayColumn("last read"),
)
_ERROR_COLUMNS = (
    DisplayColumn("error"),
    DisplayColumn("route"),
    DisplayColumn("count", align_right=True),
    DisplayColumn("last"),
)


class ReportedError(Struct, frozen=True, rename="camel"):
    error: str
    route: str
    count: int
    last_at: datetime


class KeyReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """The usage of a key. The fields have the same names as in the JSON of the console's page about the key."""

    last_used: datetime | None
    days: list[KeyDay]
    errors: list[ReportedError]
    copies: list[CopyRow]


def read_report(settings: Settings, key: Key, now: int) -> KeyReport:
    today = thai_day(now)
    span = days_until(today, DAYS)
    reads = bootstrap.operator_reads(settings)
    days = key_days(reads.days(span[0], today, key.key_id), span)
    errors = reads.errors(now - DAYS * DAY_MS, key.key_id)
    last_used = reads.last_used().get(key.key_id)
    copies = reads.copies(key.lineage)
    return KeyReport(
        last_used=None if last_used is None else from_ms(last_used, UTC),
        days=days,
        errors=[ReportedError(one.error, one.route, one.count, from_ms(one.last_at, UTC)) for one in errors],
        copies=copy_rows(key, copies, _loaded_shops(settings, now), now),
    )


def _loaded_shops(settings: Settings, now: int) -> list[ShopActivity] | None:
    try:
        return bootstrap.operator_reads(settings).shops(now, count_all=False)
    except (StoreUnavailable, StoreMismatch):
        return None


def report_view(report: KeyReport) -> dict[str, Any]:
    """Return the report as `--json` prints it."""
    found: dict[str, Any] = to_builtins(report)
    return found


def report_fields(report: KeyReport) -> list[tuple[str, str]]:
    """Return the time of the last request and the counts of the last 7 days, as names and values."""
    requests, errors = sum(day.requests for day in report.days), sum(day.errors for day in report.days)
    refused = sum(day.rate_limited + day.refused for day in report.days)
    others = counted(refused, "request that was", "requests that were")
    usage = (
        f"{counted(requests, 'request')} in the last {DAYS} days, of which {errors:,} failed. This does not include "
        f"{others} refused because of the rate limit or a revoked key."
    )
    return [("last used", _time(report.last_used) if report.last_used else "never"), ("usage", usage)]


def print_report(report: KeyReport, now: int) -> None:
    """Print a table of the errors, a table of the copy's lists, and notes about changes that were not read."""
    if report.errors:
        echo()
        rows = [(one.error, one.route, f"{one.count:,}", _time(one.last_at)) for one in report.errors]
        print_table(_ERROR_COLUMNS, rows)
    if report.copies:
        echo()
        print_table(_COPY_COLUMNS, [_copy_cells(row, now) for row in report.copies])
        for row in report.copies:
            for note in _notes(row):
                echo(f"{_name(row)}: {note}")


def _copy_cells(row: CopyRow, now: int) -> tuple[str, str, str, str]:
    verdict = _VERDICTS[row.state]
    if row.state == "behind" and row.complete_until:
        verdict = f"behind by {duration(now - to_ms(row.complete_until))}"
    elif row.state == "fresh" and row.read_from:
        verdict = f"up to date for changes since {_time(row.read_from)}"
    return _name(row), verdict, _time(row.complete_until), _time(row.last_read_at)


def _notes(row: CopyRow) -> list[str]:
    notes = []
    if row.gap_from and row.gap_until:
        notes.append(
            f"Changes between {_time(row.gap_from)} and {_time(row.gap_until)} were not read from the list of changes. "
            "This is expected if the copy was rebuilt during that time. To close the gap, ask the integrator to "
            f"read {'this' if row.shop_id else 'each'} shop once with updatedSince={iso_utc(to_ms(row.gap_from))}."
        )
    if row.read_from:
        notes.append(f"Changes before {_time(row.read_from)} were not read from the list of changes.")
    return notes


def _name(row: CopyRow) -> str:
    if row.shop_id is None:
        return "all shops (change feed)"
    return f"{row.shop_name} ({row.shop_id})" if row.shop_name else row.shop_id


def _time(time: datetime | None) -> str:
    return "-" if time is None else f"{time:%Y-%m-%d %H:%M} UTC"
