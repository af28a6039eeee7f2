"""`counterfoil audit`: show who changed keys or the store, what changed, and when."""

import click

from counterfoil import bootstrap
from counterfoil.cli.keys import duration, instant, key_id
from counterfoil.cli.options import existing_store, store_options, utc_option
from counterfoil.cli.terminal import print_note, print_rows
from counterfoil.machine.clock import SystemClock
from counterfoil.text import counted
from counterfoil.views.audit import with_labels
from counterfoil.views.keys import labels_of


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
@utc_option
@store_options
def command(
    ctx: click.Context, keyid: str | None, since: int | None, limit: int, store: str | None, as_json: bool
) -> None:
    reads = bootstrap.operator_reads(existing_store(ctx, store))
    found, labels = reads.audit(limit + 1, keyid, since or 0), labels_of(reads.keys())
    shown = found[:limit]
    about, period = f" about key {keyid}" if keyid else "", " since the given time" if since else ""
    nothing = f"there are no entries{about}{period}."
    print_rows(with_labels(labels), shown, as_json, nothing=nothing, first=("at", "act", "keyId", "label"))
    if len(found) > limit:
        print_note(
            f"there are more entries; only the latest {counted(limit, 'is', 'are')} shown. Use --limit N to see more."
        )
