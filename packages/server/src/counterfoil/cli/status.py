"""`counterfoil status` and `doctor`: show on one screen whether all is well, and say how to fix problems."""

import os
import sys
from collections.abc import Sequence

import click

from counterfoil.checks.findings import Finding, FindingKind, Status, failed
from counterfoil.checks.overview import Overview, overview
from counterfoil.cli.options import existing_store, show_times, store_flag, store_options, utc_option
from counterfoil.model.calendar import iso_utc
from counterfoil.model.messages import Message, MessageError, quoted
from counterfoil.model.text import counted
from counterfoil.model.version import __version__
from counterfoil.program.clock import SystemClock
from counterfoil.program.main import Command
from counterfoil.program.terminal import echo, is_terminal, print_json, print_note, print_wrapped, style
from counterfoil.program.times import second
from counterfoil.settings import Settings, SettingsError, display_value, load
from counterfoil.unknown_variables import unknown_variables
from counterfoil.views.loads import alarms_json
from counterfoil.views.store import StoreValues, values_json

EXIT_CODES: dict[Status, int] = {"ok": 0, "fail": 1, "warn": 2}
INDENT = 18
SYMBOLS: dict[Status, tuple[str, str]] = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}


@click.command(cls=Command)
@utc_option
@store_options
@click.option("--deep", is_flag=True, help="Also check settings, files, secret, clock, ports and permissions.")
def command(as_json: bool, deep: bool) -> int:
    """Show the state of the service, the store, the latest load, quotas, shops and disk on one screen.

    Does not change any data. Exit status: 0 if all is well, 1 if there are problems, 2 if there are only warnings.
    Incorrect usage also exits with 2, but prints nothing to standard output.
    """
    return EXIT_CODES[show_status(as_json=as_json, deep=deep).status]


@click.command(cls=Command)
@utc_option
@store_options
def doctor(as_json: bool) -> int:
    """Check settings, secret, store, schema, clock, disk, ports and the service, and say how to fix problems.

    The same as `counterfoil status --deep`, except for the exit status: 0 if everything that the service needs is
    in order (there may be warnings), 1 if a check failed. A service that is not running does not count, so you can
    run this before you start it.
    """
    return 0 if show_status(as_json=as_json, deep=True).is_healthy else 1


SETTINGS_VALID = FindingKind(code="settings_valid", check="settings", status="ok", text="Settings are valid.")
SETTINGS_VALID_WITH_FILE = FindingKind(
    code="settings_valid_with_file",
    check="settings",
    status="ok",
    text="Settings are valid, including those in {file}.",
)
FIX_SETTINGS = Message("fix_settings", "Fix it, then run `counterfoil doctor` again.")


def show_status(*, as_json: bool, deep: bool) -> Overview:
    """Print all findings and return them. With `deep`, wrong settings and a missing store are findings too."""
    settings, now, config = None, SystemClock().now_ms(), click.get_current_context().obj
    if not deep:
        settings = _existing_store()
        found = overview(settings, now)
    else:
        try:
            settings = load(store_flag(), os.environ, config)
        except SettingsError as error:
            invalid = failed("settings", quoted(error, "settings_invalid"), FIX_SETTINGS)
            found = Overview(now, [invalid], StoreValues())
        else:
            show_times(settings)
            valid = SETTINGS_VALID_WITH_FILE(file=str(config)) if config else SETTINGS_VALID()
            checked = overview(settings, now, deep=True)
            found = Overview(now, [valid, *checked.findings], checked.store)
    if as_json:
        print_json(_as_json(found, settings))
    else:
        for shown in found.findings:
            _print_finding(shown)
        echo()
        print_wrapped(_summary(found.findings, deep=deep))
    return found


def _existing_store() -> Settings:
    """Return the settings. If there is no store, a variable that names it may be misspelled."""
    try:
        return existing_store()
    except MessageError:
        for variable in unknown_variables(os.environ):
            if variable.meant:
                print_note(str(variable))
        raise


def _print_finding(finding: Finding) -> None:
    symbol, colour = SYMBOLS[finding.status]
    status = f"{symbol} {finding.status}" if is_terminal(sys.stdout) else finding.status
    head = f"{style(f'{status:<6}', fg=colour)}  {style(f'{finding.check:<8}', bold=True)}  "
    print_wrapped(head + finding.message.render(time_text=second), INDENT)
    if finding.advice:
        print_wrapped(" " * INDENT + style(finding.advice.render(time_text=second), fg=colour), INDENT)


def _summary(findings: Sequence[Finding], *, deep: bool) -> str:
    failed = sum(finding.status == "fail" for finding in findings)
    warned = sum(finding.status == "warn" for finding in findings)
    parts = []
    if failed:
        parts.append(style(counted(failed, "problem"), fg="red"))
    if warned:
        parts.append(style(counted(warned, "warning"), fg="yellow"))
    if not parts:
        return style("All is well.", fg="green")
    summary = f"{' and '.join(parts)}."
    return summary if deep else f"{summary} Run `counterfoil doctor` for details."


def _as_json(found: Overview, settings: Settings | None) -> dict[str, object]:
    return {
        "status": found.status,
        "healthy": found.is_healthy,
        "at": iso_utc(found.at),
        "version": __version__,
        "checks": found.findings,
        "horizonAgeMs": found.horizon_age_ms,
        "meter": (display_value(settings, "meter") or None) if settings else None,
        "loadAlarms": alarms_json(found.store.intake.alarms),
        **values_json(found.store, found.at),
    }
