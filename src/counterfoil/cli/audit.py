"""`counterfoil audit`: show who changed keys or the store, what changed, and when."""

import shutil
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime

import click

from counterfoil import bootstrap
from counterfoil.cli.keys import duration, instant, key_id
from counterfoil.cli.options import existing_store, store_options
from counterfoil.cli.terminal import echo, print_note, print_rows, style
from counterfoil.domain.audit import Act, AuditEntry
from counterfoil.domain.credentials import ID_LENGTH
from counterfoil.machine.clock import SystemClock
from counterfoil.text import counted
from counterfoil.views.audit import COLUMNS, plain_changes

# The width of the action column: the length of the longest action name.
ACT_WIDTH = max(len(act.value) for act in Act)
INDENT = " " * 4
GAP = "  "
COLOURS: dict[str, str] = {
    Act.KEY_REVOKED: "red",
    Act.REVOCATION_SCHEDULED: "yellow",
    Act.REVOCATION_RESTORED: "yellow",
    Act.STORE_RESTORED: "yellow",
    Act.FILE_RECREATED: "yellow",
    Act.KEY_ISSUED: "green",
}


def since_time(value: str) -> int:
    """Parse a time with a zone, or a duration before now such as `7d`. Return the time in milliseconds since 1970."""
    try:
        return SystemClock().now_ms() - duration(value) if value[-1:] in "mhdw" else instant(value)
    except click.BadParameter as error:
        raise click.BadParameter(
            f"{value!r} is not a valid duration or time. Use a duration such as 12h or 7d, or a time with its time "
            "zone, such as 2026-11-23T00:00+07:00."
        ) from error


@click.command()
@click.argument("keyid", type=key_id, required=False)
@click.option("--since", type=since_time, metavar="TIME")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=50)
@store_options
def command(
    ctx: click.Context, keyid: str | None, since: int | None, limit: int, store: str | None, as_json: bool
) -> None:
    found = bootstrap.operator_reads(existing_store(ctx, store)).audit(limit + 1, keyid, since or 0)
    shown = found[:limit]
    about, period = f" about key {keyid}" if keyid else "", " since the given time" if since else ""
    nothing = f"there are no entries{about}{period}."
    print_rows(COLUMNS, shown, as_json, nothing=nothing, first=("at", "act", "keyId"), on_screen=_print_entries)
    if len(found) > limit:
        print_note(
            f"there are more entries; only the latest {counted(limit, 'is', 'are')} shown. Use --limit N to see more."
        )


def _print_entries(entries: Sequence[AuditEntry]) -> None:
    for entry in entries:
        _print_entry(entry)


def _print_entry(entry: AuditEntry) -> None:
    """Print an entry, with its details on indented lines below it, so that it fits a narrow terminal."""
    width = shutil.get_terminal_size().columns
    time = datetime.fromtimestamp(entry.at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    act = entry.act.replace("_", " ").ljust(ACT_WIDTH)
    key = (entry.key_id or "").ljust(ID_LENGTH)
    actor = entry.actor
    who = f"{actor.name}@{actor.host}" if actor.host else actor.name
    who += "" if actor.via == "cli" else f" ({actor.via})"
    fits = len(GAP.join((time, act, key, who))) <= width
    columns = (
        style(time, dim=True),
        style(act, fg=COLOURS.get(entry.act)),
        style(key, bold=True),
        *((style(who, dim=True),) if fits else ()),
    )
    echo(GAP.join(columns))
    for text in (*(() if fits else (who,)), entry.detail or ", ".join(plain_changes(entry))):
        if text:
            for line in textwrap.wrap(text, width, initial_indent=INDENT, subsequent_indent=INDENT):
                echo(line)
