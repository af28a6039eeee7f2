"""`counterfoil usage`: requests per key and day, and disclosures of personal data."""

import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import date

import click
from msgspec import Struct

from counterfoil import bootstrap, key_issuing
from counterfoil.cli.keys import key_id
from counterfoil.cli.options import existing_store, json_option, store_option
from counterfoil.cli.terminal import DisplayColumn, bar, note, on_terminal, print_json, table
from counterfoil.domain.access import Key
from counterfoil.domain.allowance import DAILY_TOTAL_DAYS
from counterfoil.domain.calendar import compact, days_until, iso_utc, thai_day
from counterfoil.machine.clock import SystemClock
from counterfoil.ports import RequestRecord
from counterfoil.settings import Settings

WIDEST_BAR = 48
NEARLY = 0.8
ALL_DISCLOSURES = 100_000


class KeyUsage(Struct, frozen=True):
    """A key and its request count on each of the last days, oldest first."""

    key: Key
    days: list[tuple[date, int]]

    @property
    def total(self) -> int:
        return sum(count for _, count in self.days)


@click.command()
@click.argument("keyid", type=key_id, required=False)
@click.option(
    "--days", type=click.IntRange(1, DAILY_TOTAL_DAYS), default=7, show_default=True, help="Number of days to show."
)
@click.option("--disclosures", is_flag=True, help="List the latest requests that returned tel or email instead.")
@click.option("--latest", type=click.IntRange(1), default=50, show_default=True, help="Number of disclosures to show.")
@store_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    keyid: str | None,
    days: int,
    disclosures: bool,
    latest: int,
    store: str | None,
    as_json: bool,
) -> None:
    """Show the requests per day (Thailand time) of KEYID, or of every key."""
    settings = existing_store(ctx, store)
    keys = _keys(settings, keyid)
    if disclosures:
        _show_disclosures(_disclosures(settings, keyid, latest), as_json)
        return
    spent = _spent(settings, keys, days)
    if as_json:
        print_json([_view(one) for one in spent])
    elif on_terminal(sys.stdout):
        _draw(spent)
    else:
        _list(spent)


def _keys(settings: Settings, keyid: str | None) -> list[Key]:
    with closing(bootstrap.key_store(settings)) as key_store:
        return key_store.all() if keyid is None else [key_issuing.find(key_store, keyid)]


def _spent(settings: Settings, keys: Sequence[Key], days: int) -> list[KeyUsage]:
    span = days_until(thai_day(SystemClock().now_ms()), days)
    with closing(bootstrap.usage(settings)) as usage:
        totals: Mapping[str, Mapping[date, int]] = usage.totals(days)
    return [KeyUsage(key, [(day, totals.get(key.key_id, {}).get(day, 0)) for day in span]) for key in keys]


def _view(spent: KeyUsage) -> dict[str, object]:
    key = spent.key
    return {
        "keyId": key.key_id,
        "label": key.label,
        "perMin": key.per_min,
        "perDay": key.per_day,
        "revoked": key.revoked_at is not None,
        "days": [{"date": compact(day), "count": count} for day, count in spent.days],
        "total": spent.total,
    }


def _list(spent: Sequence[KeyUsage]) -> None:
    columns = (
        DisplayColumn("key ID"),
        DisplayColumn("day"),
        DisplayColumn("count", right=True),
        DisplayColumn("quota", right=True),
    )
    rows = [(one.key.key_id, day.isoformat(), count, one.key.per_day) for one in spent for day, count in one.days]
    if rows:
        table(columns, rows)
    else:
        note("no keys found. Run `counterfoil keys issue` to create one.")


def _draw(spent: Sequence[KeyUsage]) -> None:
    """Print a block of bars for each key that was used, and one line for the others."""
    used = [one for one in spent if one.total] if len(spent) > 1 else list(spent)
    width = max(10, min(WIDEST_BAR, shutil.get_terminal_size().columns - 32))
    for one in used:
        click.echo(_heading(one.key))
        most = max(count for _, count in one.days) or 1
        for day, count in one.days:
            click.echo(_line(day, count, most, one.key.per_day, width))
        click.echo()
    idle = [one.key.label or one.key.key_id for one in spent if one not in used]
    if idle:
        click.secho(f"No requests: {', '.join(idle)}", dim=True)


def _heading(key: Key) -> str:
    revoked = click.style("  revoked", fg="red") if key.revoked_at is not None else ""
    quota = click.style(f"  {key.per_day:,} requests per day (Thailand time)", dim=True)
    return f"{click.style(key.key_id, bold=True)}  {key.label}{revoked}{quota}"


def _line(day: date, count: int, most: int, quota: int, width: int) -> str:
    """Return one day's line: the bar's length is relative to the busiest day, its colour to the quota."""
    part = count / quota
    colour = "red" if part >= 1 else "yellow" if part >= NEARLY else "green"
    drawn = click.style(bar(count / most, width), fg=colour)
    return f"{click.style(f'{day:%a %d %b}', dim=True)}  {drawn} {count:>9,} {click.style(f'{part:>6.1%}', dim=True)}"


# --- personal data ---------------------------------------------------------------


def _disclosures(settings: Settings, keyid: str | None, latest: int) -> list[RequestRecord]:
    with closing(bootstrap.usage(settings)) as usage:
        records = usage.disclosures(latest if keyid is None else ALL_DISCLOSURES)
    return [record for record in records if keyid in (None, record.key_id)][:latest]


def _show_disclosures(records: Sequence[RequestRecord], as_json: bool) -> None:
    rows = [(iso_utc(one.at), one.key_id, one.route, one.personal_base or "", one.personal_members) for one in records]
    if as_json:
        names = ("at", "keyId", "route", "providerId", "members")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    elif rows:
        table(
            (
                DisplayColumn("time", whole=True),
                DisplayColumn("key ID", "bold", whole=True),
                DisplayColumn("route"),
                DisplayColumn("base", "cyan"),
                DisplayColumn("members", right=True),
            ),
            rows,
        )
    else:
        note("no request has returned personal data in the last 90 days.")
