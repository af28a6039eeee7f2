"""`counterfoil shops`: list the loaded shops, with the IDs needed to issue keys."""

from collections.abc import Sequence
from itertools import groupby

import click

from counterfoil import bootstrap
from counterfoil.cli.options import existing_store, store_options, utc_option
from counterfoil.cli.terminal import echo, print_parts, print_rows, print_wrapped, style
from counterfoil.domain.activity import MISSING_BILLS, ShopActivity, format_usual
from counterfoil.machine.clock import SystemClock
from counterfoil.text import counted
from counterfoil.views.shops import columns, state_text
from counterfoil.views.times import minute


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
    print_rows(columns(), found, as_json, nothing=nothing, first=_FIRST, on_screen=_print_by_franchise)


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


def _print_by_franchise(shops: Sequence[ShopActivity]) -> None:
    """Print a block for each franchise. A shop takes some lines, so that long names and IDs are not cut."""
    for franchise_id, group in groupby(shops, key=lambda shop: shop.franchise_id):
        of_franchise = list(group)
        title = style(f"franchise {franchise_id}" if franchise_id else "no franchise", bold=True)
        number = style(counted(len(of_franchise), "shop"), dim=True)
        echo(f"{title}  {number}")
        indent = max(len(shop.shop_id) for shop in of_franchise) + 4
        for shop in of_franchise:
            _print_shop(shop, indent)
        echo()
    print_wrapped("Usual: the median number of bills by this time on this weekday (last 4 weeks).", dim=True)
    silent = f"Silent: the shop has had no bill for a period in which it usually has {MISSING_BILLS} or more."
    print_wrapped(silent, dim=True)


def _print_shop(shop: ShopActivity, indent: int) -> None:
    state = ""
    if shop.is_silent:
        state = style(
            f"  silent; it usually has at least {format_usual(shop.usual_since_last)} bills in a period this long",
            fg="yellow",
        )
    elif shop.state != "open":
        state = style(f"  {state_text(shop)}", dim=True)
    print_wrapped(f"  {style(shop.shop_id.ljust(indent - 4), fg='cyan')}  {shop.name or '-'}{state}", indent)
    about = [
        counted(shop.bills or 0, "bill"),
        f"last {minute(shop.last_bill_at)}",
        f"today {shop.today:,} (usual {format_usual(shop.usual_by_now)})",
    ]
    base = f"base {shop.provider_id}" if shop.provider_id else "no members"
    print_parts([*(about if shop.last_bill_at is not None else ["no bills"]), base], indent)
