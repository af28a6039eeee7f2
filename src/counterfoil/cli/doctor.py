"""`counterfoil doctor`: check everything a service needs and say how to fix it."""

import os
import shutil
import sys
import textwrap
from typing import NamedTuple

import click

from counterfoil import bootstrap
from counterfoil.cli import ailments, clusterailments
from counterfoil.cli.ailments import Finding, Status
from counterfoil.cli.options import json_option, store_option
from counterfoil.cli.terminal import on_terminal, print_json
from counterfoil.settings import Settings, SettingsError, load

INDENT = 18
MARKS: dict[Status, tuple[str, str]] = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}


class Diagnosis(NamedTuple):
    findings: list[Finding]

    @property
    def healthy(self) -> bool:
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
        print_json({"healthy": diagnosis.healthy, "checks": diagnosis.findings})
    else:
        for finding in diagnosis.findings:
            _tell(finding)
    if not diagnosis.healthy:
        raise click.exceptions.Exit(1)


def _diagnose(ctx: click.Context, store: str | None) -> Diagnosis:
    try:
        settings = load({"store": store}, os.environ, ctx.obj)
    except SettingsError as error:
        return Diagnosis([Finding("settings", "fail", f"{error}.", "Fix it, then run `counterfoil doctor` again.")])
    read = Finding(
        "settings", "ok", "Settings are valid." if ctx.obj is None else f"Settings are valid, including {ctx.obj}."
    )
    return Diagnosis([read, *_examine(settings)])


def _examine(settings: Settings) -> list[Finding]:
    clock = bootstrap.SystemClock()
    if settings.database:
        at_hand = [ailments.clock(None, clock.now_ms()), *ailments.ports(settings, "still")]
        return [*clusterailments.examine(settings), *at_hand]
    if not settings.store.is_dir():
        is_file = settings.store.is_file()
        return [
            ailments.store_that_is_a_file(settings) if is_file else ailments.missing_store(settings),
            ailments.clock(None, clock.now_ms()),
            ailments.disk(settings),
            *ailments.ports(settings, "still"),
        ]
    inspection = bootstrap.Inspection(settings)
    problems = inspection.problems()
    moved = ailments.moved_store(problems)
    if moved:
        return [moved]
    horizon = inspection.horizon_ms()
    pulse = ailments.pulse_of(horizon, clock.now_ms())
    return [
        ailments.store_folder(settings),
        *ailments.secret(settings, problems["books"] is None, lambda: ailments.secret_of_the_books(settings)),
        *ailments.databases(settings, problems),
        ailments.write_test(settings),
        ailments.clock(horizon, clock.now_ms()),
        ailments.disk(settings),
        ailments.horizon(horizon, clock.now_ms(), served=not ailments.is_port_free(settings)),
        *ailments.latest_load(inspection.latest_load(), pulse),
        *ailments.ports(settings, pulse),
    ]


def _tell(finding: Finding) -> None:
    mark, colour = MARKS[finding.status]
    drawn = on_terminal(sys.stdout)
    status = f"{mark} {finding.status}" if drawn else finding.status
    lines = [*_lines(finding.says, drawn), *(click.style(line, fg=colour) for line in _lines(finding.advice, drawn))]
    head = f"{click.style(f'{status:<6}', fg=colour)}  {click.style(f'{finding.check:<8}', bold=True)}  "
    for line in lines:
        click.echo(head + line)
        head = " " * INDENT


def _lines(text: str, drawn: bool) -> list[str]:
    """Wrap text between words on a terminal; leave it whole elsewhere."""
    if not drawn:
        return [text] if text else []
    width = max(30, shutil.get_terminal_size().columns - INDENT)
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
