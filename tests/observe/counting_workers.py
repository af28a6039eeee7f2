"""A worker that counts requests in its own section of the file. New processes must be able to import this module."""

import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from prometheus_client.core import Metric

from counterfoil.observe import Counters, Layout, RequestServed
from counterfoil.program.clock import SystemClock

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
LAYOUT = Layout(["shops", "transactions"], ["openapi.json", "reference", "unknown"])


def served(**fields: Any) -> RequestServed:
    told: dict[str, Any] = {
        "request_id": "r",
        "method": "GET",
        "route": "shops",
        "status": 200,
        "error": None,
        "key_id": "k_1",
        "took_us": 300,
        "sent": 10,
        "encoding": None,
    }
    return RequestServed(**told | fields)


def counter_file(folder: Path) -> int:
    return os.open(folder / "counters", os.O_CREAT | os.O_RDWR, 0o600)


def count(folder: Path, requests: int, killed: bool) -> None:
    page = Counters(counter_file(folder), LAYOUT, SystemClock().now_ms)
    for _ in range(requests):
        page(served())
    if killed:
        os.kill(os.getpid(), signal.SIGKILL)


def samples_of(families: Iterable[Metric]) -> Samples:
    """Return the values of all samples, by name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }
