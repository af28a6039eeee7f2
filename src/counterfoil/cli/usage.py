"""`counterfoil usage`: requests per key and day, and disclosures of personal data."""

import shutil
import sys
from collections.abc import Sequence
from datetime import date

import click
from msgspec import Struct

from counterfoil import bootstrap, key_issuing
from counterfoil.cli.keys import NO_KEYS, key_id
from counterfoil.cli.options import existing_store, store_options, utc_option
from counterfoil.cli.terminal import (
    bar,
    echo,
    is_terminal,
    print_json,
    print_list,
    print_note,
    print_rows,
    print_wrapped,
    style,
)
from counterfoil.domain.access import DAILY_TOTAL_DAYS, NEARLY_USED_UP, Key
from counterfoil.domain.calendar import compact, days_until, thai_day
from counterfoil.domain.credentials import ID_LENGTH
from counterfoil.machine.clock import SystemClock
from counterfoil.operator_reads import OperatorReads, RequestFilter
from counterfoil.text import counted
from counterfoil.views.columns import ListColumn
from counterfoil.views.keys import labels_of
from counterfoil.views.requests import disclosures as disclosure_columns

MAX_BAR_WIDTH = 48


class KeyUsage(Struct, frozen=True):
    """A key and its daily request counts, oldest day first."""

    key: Key
    days: list[tuple[date, int]]

    @property
    def total(self) -> int:
        return sum(count for _, count in self.days)


@click.command()
@click.argument("keyid", type=key_id, required=False)
@click.option("--days", type=click.IntRange(1, DAILY_TOTAL_DAYS), default=7)
@click.option("--disclosures", is_flag=True)
@click.option("--latest", type=click.IntRange(1, 1_000_000), default=50)
@utc_option
@store_options
def command(
    ctx: click.Context, keyid: str | None, days: int, disclosures: bool, latest: int, store: str | None, as_json: bool
) -> None:
    reads = bootstrap.operator_reads(existing_store(ctx, store))
    keys = reads.keys()
    if keyid is not None:
        keys = [key_issuing.key_in(keys, keyid)]
    if disclosures:
        found = reads.requests(RequestFilter(personal_data=True, key_id=keyid), latest + 1).requests
        nothing = "no disclosures found. Disclosures are kept for 90 days."
        print_rows(disclosure_columns(labels_of(keys)), found[:latest], as_json, nothing=nothing)
        if len(found) > latest:
            print_note(
                f"only the latest {counted(latest, 'disclosure is', 'disclosures are')} shown. "
                "Use --latest N to see more."
            )
        return
    usages = _usage_per_key(reads, keys, days)
    if as_json:
        print_json([_view(usage) for usage in usages])
    elif not usages:
        print_note(NO_KEYS)
    elif is_terminal(sys.stdout):
        _print_bars(usages)
    else:
        print_list(_DAYS, [(usage.key, day, count) for usage in usages for day, count in usage.days])


def _usage_per_key(reads: OperatorReads, keys: Sequence[Key], days: int) -> list[KeyUsage]:
    span = days_until(thai_day(SystemClock().now_ms()), days)
    counts = {(of_day.key_id, of_day.day): of_day.requests for of_day in reads.days(span[0], span[-1])}
    return [KeyUsage(key, [(day, counts.get((key.key_id, day), 0)) for day in span]) for key in keys]


def _view(usage: KeyUsage) -> dict[str, object]:
    key = usage.key
    return {
        "keyId": key.key_id,
        "label": key.label,
        "perMin": key.per_min,
        "perDay": key.per_day,
        "revoked": key.is_revoked(SystemClock().now_ms()),
        "days": [{"date": compact(day), "count": count} for day, count in usage.days],
        "total": usage.total,
    }


# The columns of a list of days: a key, a day, and the number of requests.
_DAYS: Sequence[ListColumn[tuple[Key, date, int]]] = (
    ListColumn("", lambda row: row[0].key_id, "code", "key ID"),
    ListColumn("", lambda row: row[1].isoformat(), terminal="day"),
    ListColumn("", lambda row: row[2], "number", "count"),
    ListColumn("", lambda row: row[0].per_day, "number", "quota"),
    ListColumn("", kind="number", terminal="used", text=lambda row: f"{row[2] / row[0].per_day:.1%}"),
    ListColumn("", lambda row: row[0].label, terminal="label"),
)


def _print_bars(usages: Sequence[KeyUsage]) -> None:
    """Print a block of bars for each key that was used, and one line that lists the unused keys.

    A single key gets a block even if it was not used. A full bar is the day with the most requests of any key.
    """
    used = [usage for usage in usages if usage.total] if len(usages) > 1 else list(usages)
    width = max(10, min(MAX_BAR_WIDTH, shutil.get_terminal_size().columns - 39))
    largest = max((count for usage in used for _, count in usage.days), default=0)
    for usage in used:
        print_wrapped(_heading(usage.key), ID_LENGTH + 2)
        for day, count in usage.days:
            echo(_day_line(day, count, usage.key.per_day, largest, width))
        echo()
    idle = [f"{usage.key.label} {usage.key.key_id}".strip() for usage in usages if usage not in used]
    if idle:
        print_wrapped(f"No requests: {', '.join(idle)}", dim=True)


def _heading(key: Key) -> str:
    revoked = style("  revoked", fg="red") if key.is_revoked(SystemClock().now_ms()) else ""
    quota = style(f"  {counted(key.per_day, 'request')} per day (Thailand time)", dim=True)
    return f"{style(key.key_id, bold=True)}  {key.label}{revoked}{quota}"


def _day_line(day: date, count: int, quota: int, largest: int, width: int) -> str:
    """Return the line for one day, with a bar relative to the largest day and the share of the quota."""
    share = count / quota
    colour = "red" if share >= 1 else "yellow" if share >= NEARLY_USED_UP else "green"
    percent = style(f"{share:>6.1%} of quota", dim=True)
    coloured_bar = style(bar(count / largest if largest else 0, width), fg=colour)
    return f"{style(f'{day:%a %d %b}', dim=True)}  {coloured_bar} {count:>9,} {percent}"
