"""`counterfoil status`: show on one screen whether all is well."""

from collections.abc import Sequence

import click

from counterfoil import __version__
from counterfoil.checks.local import Finding, Status
from counterfoil.checks.overview import Overview, overview
from counterfoil.cli.doctor import print_finding
from counterfoil.cli.load_fields import alarm_view
from counterfoil.cli.options import existing_store, json_option, store_option
from counterfoil.cli.shops import shop_view
from counterfoil.cli.terminal import print_json
from counterfoil.domain.calendar import iso_utc
from counterfoil.machine.clock import SystemClock
from counterfoil.settings import display_value

EXIT_CODES: dict[Status, int] = {"ok": 0, "fail": 1, "warn": 2}


@click.command()
@store_option
@json_option
@click.pass_context
def command(ctx: click.Context, store: str | None, as_json: bool) -> None:
    """Show the state of the service, the store, the latest load, quotas, shops and disk on one screen.

    Does not change any data. Exit status: 0 if all is well, 1 if there are
    problems, 2 if there are only warnings. Incorrect usage also exits with 2, but prints
    nothing to standard output.
    """
    settings = existing_store(ctx, store)
    seen = overview(settings, SystemClock().now_ms())
    if as_json:
        print_json(_view(seen, display_value(settings, "meter")))
    else:
        for finding in seen.findings:
            print_finding(finding)
        click.echo(f"\n{_summary(seen.findings)}")
    raise click.exceptions.Exit(EXIT_CODES[seen.status])


def _summary(findings: Sequence[Finding]) -> str:
    failed, warned = (sum(finding.status == status for finding in findings) for status in ("fail", "warn"))
    if not failed and not warned:
        return click.style("All is well.", fg="green")
    counts = [(failed, "problem", "red"), (warned, "warning", "yellow")]
    parts = [click.style(f"{n} {what}{'' if n == 1 else 's'}", fg=colour) for n, what, colour in counts if n]
    return f"{' and '.join(parts)}. Run `counterfoil doctor` for details."


def _view(found: Overview, meter: str) -> dict[str, object]:
    seen, now = found.store, found.at
    load = seen.load
    return {
        "status": found.status,
        "at": iso_utc(now),
        "version": __version__,
        "checks": found.findings,
        "horizonAgeMs": found.horizon_age_ms,
        "storeBytes": seen.extent.size_bytes if seen.extent else None,
        "schema": seen.extent.schema if seen.extent else None,
        "software": seen.extent.software if seen.extent else None,
        "freeBytes": seen.disk.free_bytes if seen.disk else None,
        "logBytes": seen.disk.log_bytes if seen.disk else {},
        "meter": meter or None,
        "servers": [
            {
                "name": server.name,
                "role": server.role.value,
                "horizon": None if server.horizon is None else iso_utc(server.horizon),
            }
            for server in seen.servers
        ],
        "latestLoad": None
        if load is None
        else {
            "lines": load.lines,
            "changed": load.changed,
            "rejected": load.rejected,
            "finished": load.finished,
            "stopped": load.is_stopped,
            "idleMs": load.idle_ms,
        },
        "loadAlarms": alarm_view(seen.alarms),
        "watchedFolders": [
            {
                "name": folder.name,
                "heartbeatAgeMs": max(0, now - folder.seen_at),
                "deliveryAgeMs": max(0, now - folder.delivered_at),
                "files": folder.files,
                "quarantined": folder.quarantined,
                "stopped": folder.is_stopped,
            }
            for folder in seen.folders
        ],
        "keysNearQuota": seen.near_quota,
        "shops": len(seen.shops),
        "silentShops": [shop_view(shop) for shop in seen.shops if shop.is_silent],
    }
