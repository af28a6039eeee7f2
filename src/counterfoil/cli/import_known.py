"""`counterfoil import` of a known export on a terminal: the facts of new shops are asked, and the totals accepted."""

import click

from counterfoil.cli.terminal import echo, print_wrapped
from counterfoil.conversions import known_franchises
from counterfoil.domain.calendar import quiet_closing, zone_named
from counterfoil.domain.shops import ShopSettings, closing_time
from counterfoil.ingest.converted_exports import ConvertedExport
from counterfoil.settings import Settings
from counterfoil.shop_settings import ShopSettingsError, checked
from counterfoil.text import counted, printable

NONE = "-"
_INDENT = " " * 5


def ask_shop_facts(settings: Settings, export: ConvertedExport, given: ShopSettings) -> ShopSettings:
    """Return the facts of the new shops of an export: what was given, and what a person answers to the rest."""
    shops = export.tally.new_shops
    echo("", err=True)
    named = ", ".join(map(printable, shops[:4])) + (" …" if len(shops) > 4 else "")
    print_wrapped(f"{counted(len(shops), 'new shop')}: {named}. No export says the following about shops.", err=True)
    franchise = given.franchise_id
    if franchise is None and (len(shops) > 1 or known_franchises(settings)):
        franchise = _ask_franchise(known_franchises(settings))
    zone = given.timezone
    if zone is None and export.has_shop_without_zone:
        zone = _ask_zone(settings.timezone)
    closing = given.closing
    if closing is None:
        closing = _ask_closing(quiet_closing(export.bill_hours(zone or settings.timezone)))
    return ShopSettings(franchise_id=franchise, closing=closing, timezone=zone)


def _ask_franchise(known: list[str]) -> str | None:
    print_wrapped("Which franchise do they belong to? A key for a franchise reads all its shops.", err=True, bold=True)
    if known:
        print_wrapped(f"{_INDENT}Known: {', '.join(map(printable, known[:4]))}", 5, err=True, dim=True)
    default = known[0] if len(known) == 1 else ""
    _say_default(default, f"a name of your own, or {NONE} for none")
    while True:
        typed = click.prompt(">", default=default, show_default=False, prompt_suffix=" ", err=True).strip()
        if typed == NONE:
            return None
        problem = _problem(ShopSettings(franchise_id=typed)) if typed else "Type a name."
        if problem is None:
            return str(typed)
        echo(f"{_INDENT}{problem}", err=True)


def _ask_zone(default: str) -> str:
    print_wrapped("The times of the export name no zone. Which time zone are the shops in?", err=True, bold=True)
    _say_default(default, "another name, such as Europe/London")
    while True:
        typed = click.prompt(">", default=default, show_default=False, prompt_suffix=" ", err=True).strip()
        if zone_named(typed) is not None:
            return str(typed)
        echo(f"{_INDENT}{printable(typed)} is not a time zone.", err=True)


def _ask_closing(proposed: str | None) -> str | None:
    print_wrapped("When does a business day end? Bills before that count for the day before.", err=True, bold=True)
    if proposed:
        _say_default(f"{proposed} (hardly any bills are closed then)", f"another time, or {NONE} for no business day")
    else:
        _say_default("", f"a time such as 04:00, or {NONE} for no business day")
    while True:
        typed = click.prompt(">", default=proposed or "", show_default=False, prompt_suffix=" ", err=True).strip()
        if typed == NONE:
            return None
        closing = closing_time(typed)
        if closing is not None:
            return closing
        echo(f"{_INDENT}{printable(typed)} is not a time of day, such as 04:00.", err=True)


def _say_default(default: str, otherwise: str) -> None:
    text = f"Enter: {default}; or {otherwise}" if default else otherwise
    print_wrapped(f"{_INDENT}{printable(text)}", len(_INDENT), err=True, dim=True)


def _problem(settings: ShopSettings) -> str | None:
    try:
        checked(settings)
    except ShopSettingsError as error:
        return str(error)
    return None


def accepts_totals() -> bool:
    """Ask whether the totals that were shown are to be loaded."""
    echo("Compare the net with the day report of your till.", err=True)
    echo("", err=True)
    echo("1  Load", err=True)
    echo("2  Stop", err=True)
    while True:
        typed = click.prompt(">", prompt_suffix=" ", err=True).strip()
        if typed == "1":
            return True
        if typed in ("2", "q"):
            return False
        echo("Type one of the numbers.", err=True)
