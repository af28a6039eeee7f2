"""Runs all checks on a store, for `counterfoil doctor` and the console."""

from collections.abc import Iterator

from counterfoil import bootstrap
from counterfoil.checks import cluster, intake, local
from counterfoil.checks.local import Finding, PortUse
from counterfoil.checks.overview import Overview, ask_ready, serves_another_store
from counterfoil.settings import Settings

# Checks that `status` runs too. `every_finding` leaves out the findings of `doctor` for these checks, because they are
# the same or, for `service`, less reliable: only `status` asks the running service.
MADE_BY_STATUS = frozenset({"service", "load", "disk", "intake", "folders", "server", "primary"})
# A check of `doctor` that the console leaves out. The check is about the login of the service, but the console would
# check its own login, which needs other permissions.
LEFT_OUT = frozenset({"rights"})
# The checks for free ports. They are left out while the service is running, because it uses the ports.
PORTS = frozenset({"port", "admin"})


def every_finding(settings: Settings, seen: Overview) -> list[Finding]:
    """Return the findings of `status` and `doctor` together, without duplicates.

    For the checks in MADE_BY_STATUS, the findings of `status` are returned. If `doctor` reports a problem in another
    check with the same message as `status`, the finding of `doctor` is returned, because its advice is more precise.
    """
    is_serving = all(one.status == "ok" for one in seen.findings if one.check == "service")
    examined = {one.check for one in seen.findings} & MADE_BY_STATUS
    superseded = examined | LEFT_OUT | (PORTS if is_serving else frozenset())
    added = [one for one in run_checks(settings, seen.at) if one.check not in superseded]
    reported = {one.message for one in added if one.status != "ok"}
    return [*(one for one in seen.findings if one.message not in reported), *added]


def run_checks(settings: Settings, now: int) -> list[Finding]:
    """Run the checks of `doctor` that apply to this kind of store, and return the findings."""
    if settings.database:
        local_checks = [local.clock(None, now), *local.ports(settings, _port_use_on_this_node(settings))]
        return [*cluster.check_cluster(settings, now), *local_checks]
    if not settings.store.is_dir():
        is_file = settings.store.is_file()
        return [
            local.store_that_is_a_file(settings) if is_file else local.missing_store(settings),
            local.clock(None, now),
            local.disk(settings),
            *local.ports(settings, "other"),
        ]
    if bootstrap.is_unfinished(settings):
        return [local.unfinished_store(settings), local.clock(None, now), local.disk(settings)]
    inspection = bootstrap.inspection(settings)
    problems = inspection.problems()
    moved = local.moved_store(settings, problems)
    if moved:
        return [moved]
    horizon = inspection.horizon()
    motion = local.horizon_motion(horizon, now)
    return [
        local.store_folder(settings),
        *local.secret(settings, inspection.fingerprint() if problems["books"] is None else None),
        *local.databases(settings, problems),
        local.write_test(settings),
        local.clock(horizon, now),
        local.disk(settings),
        local.horizon(horizon, now, served=not local.is_port_free(settings)),
        *local.latest_load(inspection.latest_load(now), motion),
        *intake.check_intake(settings, inspection, now),
        *_ports(settings, _PORT_USE[motion]),
    ]


# An embedded store has at most one service, so if its horizon is moving, that service probably uses the ports.
_PORT_USE: dict[local.HorizonMotion, PortUse] = {"moving": "service", "still": "other", "ahead": "unknown"}


def _ports(settings: Settings, use: PortUse) -> Iterator[Finding]:
    """Check the ports. If the service on the admin port serves another store, report that instead."""
    answer = ask_ready(settings) if settings.admin_port else ""
    is_other_store = not isinstance(answer, str) and serves_another_store(settings, answer)
    for finding in local.ports(settings, use):
        yield local.other_store_on_port(settings) if is_other_store and finding.check == "admin" else finding


def _port_use_on_this_node(settings: Settings) -> PortUse:
    """Ask the admin listener whether the service of this node uses the ports.

    The horizon does not show this, because every node advances it.
    """
    if not settings.admin_port:
        return "unknown"
    return "other" if isinstance(ask_ready(settings), str) else "service"
