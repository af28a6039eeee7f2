"""Functions that tests run in other processes, which must be able to import them."""

import asyncio
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Any

from counterfoil.domain.access import Admitted, Key
from counterfoil.ingest.lines import Reader
from counterfoil.program.clock import SystemClock
from ports.backends import OpenUsage, Store
from ports.open_store import PSEUDONYMS, bill, open_ledger

BILLS = 20
METER_LIMITS = (
    "counterfoil.backends.redis.client.GATE_SEC",
    "counterfoil.backends.redis.client.TIMEOUT_SEC",
    "counterfoil.backends.redis.meter.GATE_SEC",
)


def _patient_usage(store: Store) -> OpenUsage:
    """Open the meter with limits that are long enough for a busy machine."""
    for limit in METER_LIMITS:
        module, _, name = limit.rpartition(".")
        setattr(import_module(module), name, 20)
    return store.usage(SystemClock())


def load_bills(store: Store, till: str, transactions: int) -> None:
    """Repeatedly change a few bills from one till."""
    ledger = open_ledger(store, SystemClock())
    reader = Reader(PSEUDONYMS, ledger.facts)
    for n in range(transactions):
        records = [bill(f"{till} {(n + i) % BILLS:02}", cashier=f"{n}") for i in range(3)]
        ledger.apply([reader.change(record) for record in records])
    ledger.close()


def advance_horizon_until(store: Store, done: Event) -> None:
    """Advance the horizon until `done` is set."""
    ledger = open_ledger(store, SystemClock())
    while not done.wait(0.001):
        ledger.advance_horizon()
    ledger.close()


def request_admissions(store: Store, key: Key, tries: int, results: Connection) -> None:
    """Request admission `tries` times. Report each granted admission before making the next request."""
    usage = _patient_usage(store)

    async def ask() -> None:
        for _ in range(tries):
            verdict = await usage.admit(key)
            if isinstance(verdict, Admitted):
                results.send(verdict.count)

    asyncio.run(ask())
    usage.close()
    results.close()


def request_admissions_forever(store: Store, key: Key, results: Connection) -> None:
    """Keep requesting admission until killed. Report the count of each admission, and None for each refusal."""
    usage = _patient_usage(store)

    async def ask() -> None:
        while True:
            verdict: Any = await usage.admit(key)
            results.send(verdict.count if isinstance(verdict, Admitted) else None)

    asyncio.run(ask())
