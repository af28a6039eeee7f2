"""`counterfoil shops`: list the loaded shops, and set what tills do not export about them."""

import sys
from contextlib import closing

import click

from counterfoil import bootstrap, shop_settings
from counterfoil.cli.options import existing_store, require_roles, store_options, utc_option
from counterfoil.domain.audit import FieldChange
from counterfoil.domain.shops import SHOP_FIELDS, ShopSettings
from counterfoil.machine.operator import operator
from counterfoil.model.text import counted
from counterfoil.program import terminal
from counterfoil.program.clock import SystemClock
from counterfoil.program.main import CommandGroup
from counterfoil.settings import Settings
from counterfoil.shop_settings import KeyEffect, Selection, ShopChange, ShopChanges, ShopSettingsError
from counterfoil.views import shops as views

# The printed preview is kept short; `--json` lists everything.
MAX_SHOPS, MAX_IDS = 20, 5
# The fields in the words of the options.
_NAMES = {"franchiseId": "franchise", "closingTime": "closing time", "timezone": "time zone", "providerId": "base"}
# The names of the fields of `ShopSettings` as `--reset` takes them.
RESETTABLE = {"franchise": "franchise_id", "closing-time": "closing", "timezone": "timezone", "base": "provider_id"}


@click.group(invoke_without_command=True, cls=CommandGroup)
@click.option("--franchise", metavar="ID", help="Show only the shops of this franchise.")
@utc_option
@store_options
@click.pass_context
def command(ctx: click.Context, /, franchise: str | None, as_json: bool) -> None:
    """List the loaded shops with their IDs, and compare today's number of bills with the usual number.

    `counterfoil shops set` sets a shop's franchise, closing time, time zone or membership base.

    The usual number is the median number of bills that the shop had by this time of day on the same weekday in the
    last 4 weeks, in the shop's time zone, or in its first week the mean of earlier days. In its first 3 days a shop
    is `learning`. A shop is silent if it has had no bill for a period in which it usually has 5 or more. A shop
    that is not silent, but has fewer than half of its usual bills today and at least 3 fewer, is marked `fewer than
    usual`. Of a shop that was `imported once`, no bill is missed until loads have brought recent bills on two
    days. After 4 weeks without a bill, a shop counts as closed.

    Exit status: 0 if the shops were listed, 1 if the store cannot be read or the franchise is unknown.
    """
    if ctx.invoked_subcommand:
        if franchise is not None or as_json:
            raise click.UsageError("Write options after `set`, as in `counterfoil shops set ID --franchise NAME`.")
        return
    found = bootstrap.store(existing_store()).reads().shops(SystemClock().now_ms(), count_all=True)
    if franchise is not None:
        known = ", ".join(sorted({shop.franchise_id for shop in found if shop.franchise_id})) or "none"
        found = [shop for shop in found if shop.franchise_id == franchise]
        if not found:
            raise click.ClickException(f"no shops of franchise {franchise} are loaded. Loaded franchises: {known}.")
    nothing = "no shops are loaded yet. Run `counterfoil load` to load some."
    terminal.print_rows(
        views.columns(), found, as_json, nothing=nothing, narrow=("shop ID", "name", "state", "bills", "last bill")
    )


@command.command(name="set")
@click.argument("shop_ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "all_shops", is_flag=True, help="Set the values for all shops.")
@click.option("--missing", is_flag=True, help="Set each value for all shops that have none.")
@click.option(
    "--franchise",
    metavar="NAME",
    help="The ID of the franchise to which the shops belong. A key for it reads all of them.",
)
@click.option(
    "--closing-time",
    metavar="HH:MM",
    help="When the last bills of a business day are closed, such as 04:00 for a shop that closes after "
    "midnight, or 22:30.",
)
@click.option("--timezone", metavar="NAME", help="The time zone of the shops, such as Asia/Bangkok.")
@click.option(
    "--base",
    metavar="ID",
    help="The ID of the membership base whose members are customers of the shops. A key for a shop reads them.",
)
@click.option(
    "--reset",
    type=click.Choice(list(RESETTABLE)),
    multiple=True,
    help="Let the shops' own records count again for this setting. Can be repeated.",
)
@click.option("--check", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@store_options
def set_(
    shop_ids: tuple[str, ...],
    all_shops: bool,
    missing: bool,
    franchise: str | None,
    closing_time: str | None,
    timezone: str | None,
    base: str | None,
    reset: tuple[str, ...],
    check: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Set the franchise, the closing time, the time zone or the membership base of loaded shops.

    Most tills export none of these. Without a franchise, no key can read several shops; without a closing time,
    bills have no business day; without a base, no key for the shop can read its members.

    \b
    counterfoil shops set --all --franchise noodle-house
    counterfoil shops set --missing --closing-time 04:00
    counterfoil shops set riverside lakeside --timezone Asia/Bangkok
    counterfoil shops set --missing --base noodle-club

    The command first shows which shops change, which shops each key gains or loses, and how many bills may be
    rewritten. What it sets stays, whatever later records of the shop say, until it is set again or --reset.

    Exit status: 0 if the shops have the settings or were only shown, 1 if the store cannot be read or written or
    the operator refused, 2 for a wrong value or an unknown shop.
    """
    chosen = ShopSettings(franchise_id=franchise, closing=closing_time, timezone=timezone, provider_id=base)
    fields = [RESETTABLE[name] for name in reset]
    _require_something_to_do(shop_ids, chosen, fields, all_shops=all_shops, missing=missing)
    selection: Selection = "named"
    if all_shops:
        selection = "all"
    elif missing:
        selection = "missing"
    settings = existing_store()
    now = SystemClock().now_ms()
    require_roles(settings, writes=not check)
    reads = bootstrap.store(settings).reads()
    try:
        planned = shop_settings.plan(reads, shop_ids, chosen, now, selection=selection, reset=fields)
    except ShopSettingsError as error:
        raise click.UsageError(str(error)) from error
    if not as_json:
        _print_plan(planned)
    if check:
        _print_end(planned, as_json, "Nothing was changed." if planned.changed else "")
        return
    if planned.changed:
        if not yes:
            _require_confirmation(as_json)
        _change(settings, planned, now)
    # Also if nothing changes, because the bills of an earlier change may still have to be rewritten.
    _rewrite(settings)
    if not planned.changed:
        _print_end(planned, as_json, "")
        return
    done = f"Changed {counted(len(planned.changed), 'shop')}."
    if planned.bills:
        done += " All bills are rewritten."
    _print_end(planned, as_json, done, done=True)


def _require_something_to_do(
    shop_ids: tuple[str, ...], chosen: ShopSettings, fields: list[str], *, all_shops: bool, missing: bool
) -> None:
    if not chosen.given() and not fields:
        raise click.UsageError("Nothing to set. Use --franchise, --closing-time, --timezone, --base or --reset.")
    if [bool(shop_ids), all_shops, missing].count(True) != 1:
        raise click.UsageError(
            "Name the IDs of the shops, or use --all, or --missing for those that have no such value."
        )
    if missing and fields:
        raise click.UsageError("--missing sets values, so it cannot be used with --reset.")
    for field in {*fields} & {*chosen.given()}:
        option = next(option for option, name in RESETTABLE.items() if name == field)
        raise click.UsageError(f"Use either --{option} or --reset {option}.")


def _require_confirmation(as_json: bool) -> None:
    if as_json or not terminal.is_terminal(sys.stdin):
        raise click.UsageError("Changing shops needs --yes, because nobody can be asked. --check only shows them.")
    terminal.confirm("Change them?")


def _change(settings: Settings, planned: ShopChanges, now: int) -> None:
    store = bootstrap.store(settings)
    with closing(store.ledger()) as ledger, closing(store.key_store()) as audit:
        shop_settings.change_shops(ledger, audit, planned, now, operator())


def _rewrite(settings: Settings) -> None:
    with closing(bootstrap.store(settings).ledger()) as ledger, terminal.progress("Rewriting", None, "batches") as show:
        done = 0

        def count() -> None:
            nonlocal done
            done += 1
            show(done, done)

        shop_settings.rewrite(ledger, count)


def _print_plan(planned: ShopChanges) -> None:
    for change in planned.changed[:MAX_SHOPS]:
        values = [f"{_NAMES[field]} {_arrow(value)}" for field, value in change.fields().items()]
        kept = "set to what its record says, and kept whatever later records say"
        terminal.print_wrapped(f"{terminal.style(change.shop_id, bold=True)}  {', '.join(values) or kept}", 4)
    more = len(planned.changed) - MAX_SHOPS
    if more > 0:
        terminal.echo(f"… and {counted(more, 'more shop')}; --json lists them")
    if not planned.changed:
        terminal.echo("These shops already have these settings.")
        return
    for effect in planned.keys:
        _print_effect(effect)
    moves = any(change.fields().keys() & {"franchiseId", "providerId"} for change in planned.changed)
    if moves and not planned.keys:
        terminal.echo("No key is affected.")
    if planned.bills:
        terminal.print_wrapped(
            f"Up to {counted(planned.bills, 'bill')} will be rewritten. Every copy reads those that change again."
        )


def _arrow(change: FieldChange) -> str:
    return f"{change.before or 'none'} -> {change.after or 'none'}"


def _print_effect(effect: KeyEffect) -> None:
    name = f"key {effect.key.key_id}" + (f" ({effect.key.label})" if effect.key.label else "")
    parts = [
        f"{verb} {counted(len(ids), noun)} ({_listed(ids)})"
        for verb, ids, noun in (
            ("gains", effect.gains, "shop"),
            ("loses", effect.loses, "shop"),
            ("gains the members of", effect.gains_bases, "base"),
            ("loses the members of", effect.loses_bases, "base"),
        )
        if ids
    ]
    terminal.print_wrapped(f"{name} {', '.join(parts)}", 4)


def _listed(ids: list[str]) -> str:
    return ", ".join(ids[:MAX_IDS]) + (f" and {len(ids) - MAX_IDS:,} more" if len(ids) > MAX_IDS else "")


def _print_end(planned: ShopChanges, as_json: bool, text: str, *, done: bool = False) -> None:
    if not as_json:
        if text:
            terminal.echo(text)
        return
    terminal.print_json(
        {
            "changed": done,
            "shops": [_change_view(change) for change in planned.shops],
            "keys": [_effect_view(effect) for effect in planned.keys],
            "bills": planned.bills,
        }
    )


def _change_view(change: ShopChange) -> dict[str, object]:
    before, after = change.before, change.after
    return {
        "shopId": change.shop_id,
        **{field: getattr(after, name) for name, field in SHOP_FIELDS.items()},
        "before": {field: getattr(before, name) for name, field in SHOP_FIELDS.items()},
        "inRecord": {SHOP_FIELDS[name]: value for name, value in after.delivered.items()},
        "bills": change.shop.bills,
    }


def _effect_view(effect: KeyEffect) -> dict[str, object]:
    return {
        "keyId": effect.key.key_id,
        "label": effect.key.label,
        "gains": effect.gains,
        "loses": effect.loses,
        "gainsBases": effect.gains_bases,
        "losesBases": effect.loses_bases,
    }
