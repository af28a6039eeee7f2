"""`counterfoil doctor`: check everything that the service needs and say how to fix problems."""

import os
import shutil
import sys
import textwrap
from typing import NamedTuple

import click

from counterfoil.checks.diagnosis import run_checks
from counterfoil.checks.local import Finding, Status
from counterfoil.cli.options import json_option, store_option
from counterfoil.cli.terminal import is_terminal, print_json
from counterfoil.machine.clock import SystemClock
from counterfoil.settings import SettingsError, load

INDENT = 18
SYMBOLS: dict[Status, tuple[str, str]] = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}


class Diagnosis(NamedTuple):
    findings: list[Finding]

    @property
    def is_healthy(self) -> bool:
        return not any(finding.status == "fail" for finding in self.findings)


@click.command()
@store_option
@json_option
@click.pass_context
def command(ctx: click.Context, store: str | None, as_json: bool) -> None:
    """Check settings, secret, store, schema, clock, disk and ports, and say how to fix problems.

    Does not change anything. Exit status: 0 if no check failed (there may be
    warnings), 1 if a check failed.
    """
    diagnosis = _diagnose(ctx, store)
    if as_json:
        print_json({"healthy": diagnosis.is_healthy, "checks": diagnosis.findings})
    else:
        for finding in diagnosis.findings:
            print_finding(finding)
    if not diagnosis.is_healthy:
        raise click.exceptions.Exit(1)


def _diagnose(ctx: click.Context, store: str | None) -> Diagnosis:
    try:
        settings = load({"store": store}, os.environ, ctx.obj)
    except SettingsError as error:
        return Diagnosis(
            [Finding("settings", "fail", f"{str(error).rstrip('.')}.", "Fix it, then run `counterfoil doctor` again.")]
        )
    read = Finding(
        "settings",
        "ok",
        "Settings are valid." if ctx.obj is None else f"Settings are valid, including those in {ctx.obj}.",
    )
    return Diagnosis([read, *run_checks(settings, SystemClock().now_ms())])


def print_finding(finding: Finding) -> None:
    """Print a finding, with its advice indented below it. On a terminal, wrap long lines."""
    symbol, colour = SYMBOLS[finding.status]
    on_screen = is_terminal(sys.stdout)
    status = f"{symbol} {finding.status}" if on_screen else finding.status
    lines = [
        *_lines(finding.message, on_screen),
        *(click.style(line, fg=colour) for line in _lines(finding.advice, on_screen)),
    ]
    head = f"{click.style(f'{status:<6}', fg=colour)}  {click.style(f'{finding.check:<8}', bold=True)}  "
    for line in lines:
        click.echo(head + line)
        head = " " * INDENT


def _lines(text: str, on_screen: bool) -> list[str]:
    """Return the lines to print: wrapped at word boundaries for a terminal, otherwise a single line."""
    if not on_screen:
        return [text] if text else []
    width = max(30, shutil.get_terminal_size().columns - INDENT)
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
