"""Runs all checks of a store, for `counterfoil doctor` and the operator's pages."""

from counterfoil import bootstrap
from counterfoil.checks import cluster, intake, local
from counterfoil.checks.local import Finding
from counterfoil.machine.clock import SystemClock
from counterfoil.settings import Settings


def run_checks(settings: Settings) -> list[Finding]:
    """Check the store, its secret, the clock, the disk and the ports, and return everything that was found."""
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
        *intake.check_intake(settings, inspection, clock.now_ms()),
        *local.ports(settings, motion),
    ]
