"""`counterfoil doctor`: check everything that a service needs and say how to fix problems."""

import os
import shutil
import sys
import textwrap
from typing import NamedTuple

import click

from counterfoil import bootstrap
from counterfoil.cli.checks import cluster, local
from counterfoil.cli.checks.local import Finding, Status
from counterfoil.cli.options import json_option, store_option
from counterfoil.cli.terminal import is_terminal, print_json
from counterfoil.machine.clock import SystemClock
from counterfoil.settings import Settings, SettingsError, load

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

    Changes nothing. Exit status: 0 no check failed (there may be warnings), 1 a
    check failed.
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
        "settings", "ok", "Settings are valid." if ctx.obj is None else f"Settings are valid, including {ctx.obj}."
    )
    return Diagnosis([read, *_run_checks(settings)])


def _run_checks(settings: Settings) -> list[Finding]:
    clock = SystemClock()
    if settings.database:
        local_checks = [local.clock(None, clock.now_ms()), *local.ports(settings, "still")]
        return [*cluster.check_cluster(settings), *local_checks]
    if not settings.store.is_dir():
        is_file = settings.store.is_file()
        return [
            local.store_that_is_a_file(settings) if is_file else local.missing_store(settings),
            local.clock(None, clock.now_ms()),
            local.disk(settings),
            *local.ports(settings, "still"),
        ]
    inspection = bootstrap.inspection(settings)
    problems = inspection.problems()
    moved = local.moved_store(settings, problems)
    if moved:
        return [moved]
    horizon = inspection.horizon()
    motion = local.horizon_motion(horizon, clock.now_ms())
    return [
        local.store_folder(settings),
        *local.secret(settings, inspection.fingerprint() if problems["books"] is None else None),
        *local.databases(settings, problems),
        local.write_test(settings),
        local.clock(horizon, clock.now_ms()),
        local.disk(settings),
        local.horizon(horizon, clock.now_ms(), served=not local.is_port_free(settings)),
        *local.latest_load(inspection.latest_load(clock.now_ms()), motion),
        *local.ports(settings, motion),
    ]


def print_finding(finding: Finding) -> None:
    """Print a finding with its advice, indented below it on a terminal."""
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
    """Return the lines of a text. On a terminal, it is wrapped at word boundaries; elsewhere, it is one line."""
    if not on_screen:
        return [text] if text else []
    width = max(30, shutil.get_terminal_size().columns - INDENT)
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
