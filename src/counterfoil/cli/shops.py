"""`counterfoil shops`: list the loaded shops, with the IDs needed to issue keys."""

from collections.abc import Sequence

import click

from counterfoil import bootstrap
from counterfoil.cli.options import existing_store, store_options, utc_option
from counterfoil.cli.terminal import print_rows
from counterfoil.machine.clock import SystemClock
from counterfoil.views.shops import columns


@click.command()
@click.option("--franchise", metavar="ID")
@utc_option
@store_options
def command(ctx: click.Context, franchise: str | None, store: str | None, as_json: bool) -> None:
    found = bootstrap.operator_reads(existing_store(ctx, store)).shops(SystemClock().now_ms(), count_all=True)
    if franchise is not None:
        known = sorted({shop.franchise_id for shop in found if shop.franchise_id})
        found = [shop for shop in found if shop.franchise_id == franchise]
        if not found:
            raise click.ClickException(f"no shops of franchise {franchise} are loaded. {_known_franchises(known)}")
    nothing = "no shops are loaded yet. Run `counterfoil load` to load some."
    print_rows(columns(), found, as_json, nothing=nothing, first=_FIRST)


def _known_franchises(known: Sequence[str]) -> str:
    return f"Loaded franchises: {', '.join(known)}." if known else "No franchise is loaded."


# The order in a terminal, where the name comes last because it may be long.
_FIRST = (
    "shopId",
    "franchiseId",
    "providerId",
    "bills",
    "lastBillAt",
    "billsToday",
    "usualByNow",
    "usualSinceLastBill",
    "state",
)
