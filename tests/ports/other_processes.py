"""What other processes do to a store while a test looks on; started by `spawn`, so importable by name."""

import asyncio
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Any

from counterfoil.domain.access import Key
from counterfoil.domain.allowance import Admitted
from counterfoil.ingest.lines import Reader
from counterfoil.machine.clock import SystemClock
from ports.backends import Store
from ports.open_store import PSEUDONYMS, bill, open_ledger

BILLS = 20


def load_bills(store: Store, till: str, transactions: int) -> None:
    """Change a few bills of a till again and again."""
    ledger = open_ledger(store, SystemClock())
    reader = Reader(PSEUDONYMS, ledger.facts)
    for n in range(transactions):
        records = [bill(f"{till} {(n + i) % BILLS:02}", cashier=f"{n}") for i in range(3)]
        ledger.apply([reader.change(record) for record in records])
    ledger.close()


def advance_horizon_until(store: Store, done: Event) -> None:
    """Move the horizon until told to stop."""
    ledger = open_ledger(store, SystemClock())
    while not done.wait(0.001):
        ledger.advance_horizon()
    ledger.close()


def request_admissions(store: Store, key: Key, tries: int, results: Connection) -> None:
    """Ask for admission `tries` times, and tell of each that was granted before asking for the next."""
    usage = store.usage(SystemClock())

    async def ask() -> None:
        for _ in range(tries):
            verdict = await usage.admit(key)
            if isinstance(verdict, Admitted):
                results.send(verdict.count)

    asyncio.run(ask())
    usage.close()
    results.close()


def request_admissions_forever(store: Store, key: Key, results: Connection) -> None:
    """Ask for admission until killed."""
    usage = store.usage(SystemClock())

    async def ask() -> None:
        while True:
            verdict: Any = await usage.admit(key)
            results.send(verdict.count if isinstance(verdict, Admitted) else None)

    asyncio.run(ask())
