"""Opens what a worker needs of a store on PostgreSQL, with or without a shared meter."""

import time
from collections.abc import Callable

from counterfoil.backends.postgres.addresses import ConnectionLimits
from counterfoil.backends.postgres.citus_reads import open_books
from counterfoil.backends.postgres.key_lookup import PostgresKeyLookup
from counterfoil.backends.postgres.servers import Servers
from counterfoil.backends.postgres.usage import Instant, PostgresCursors, PostgresUsage
from counterfoil.model.calendar import thai_day
from counterfoil.observe import Event, ServiceChanged
from counterfoil.ports import STOP_SAVE_SEC, Clock, Cursors, Meter, RequestLog, ServingPorts, StoreUnavailable
from counterfoil.program.clock import SystemClock


def serving_ports(
    url: str,
    meter_url: str,
    fingerprint: Callable[[], str],
    test_clock: Clock | None,
    replica_lag_ms: int,
    limits: ConnectionLimits,
    observe: Callable[[Event], None],
) -> ServingPorts:
    """Open the ports of a worker. Stamps and admissions use the servers' clocks, unless a test passes its own."""
    clock = test_clock or SystemClock()
    instant: Instant | None = (lambda: (clock.steady_us(), thai_day(clock.now_ms()))) if test_clock else None
    servers = Servers(url, clock, replica_lag_ms, observe, test_clock.now_ms if test_clock else None, limits)
    usage, stored = PostgresUsage(servers, instant), PostgresCursors(servers, clock)
    meter: Meter = usage
    cursors: Cursors = stored
    log: RequestLog = usage
    closing: list[Callable[[float], None]] = [usage.close]
    if meter_url:
        from counterfoil.backends.redis.bridge import Bridge
        from counterfoil.backends.redis.client import key_prefix
        from counterfoil.backends.redis.meter import RedisMeter

        prefix = key_prefix(fingerprint())
        meter = shared = RedisMeter(meter_url, prefix, usage, observe, servers, instant)
        closing.insert(0, shared.close)
        if servers.several:
            cursors = log = bridge = Bridge(meter_url, prefix, stored, usage, clock)
            closing.insert(0, bridge.close)

    def close() -> None:
        give_up = time.monotonic() + STOP_SAVE_SEC
        for position, part in enumerate(closing):
            # Divide the remaining time equally among the components that are still open.
            within = (give_up - time.monotonic()) / (len(closing) - position)
            try:
                part(within)
            except StoreUnavailable as error:
                observe(ServiceChanged(what="save_failed", detail=str(error)))

    books = open_books(servers)
    return ServingPorts(books, PostgresKeyLookup(servers, clock), meter, log, cursors, close)
