"""A soak test: under full load for minutes or hours, memory, descriptors and WAL files must not keep growing.

Writes a CSV with one row per interval and an SVG with a curve per column.
"""

import csv
import threading
import time
from itertools import count
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from hostile.callers import Call, Caller, ConcurrentCallers, pause, percentile
from hostile.checker import Checker, Document
from hostile.targets import Attacked
from hostile.world import World

# After the warm-up, memory may grow by at most this fraction, and the number of descriptors must not grow. The total
# size of the WAL files must never exceed MOST_WAL_BYTES.
MOST_GROWTH = 0.01
MOST_WAL_BYTES = 80_000_000  # docs/run.md#the-store says that a WAL file can grow to about 65 MB
WARM_UP_SHARE = 0.4
LOADED_AT_ONCE = 50
TARGETS = (
    "shops",
    "transactions?shopId=sh-0-1&from=20260101&to=20260131&limit=200",
    "transactions?shopId=sh-0-1&updatedSince=2000-01-01T00:00:00Z&limit=200",
    "members?providerId=mb-0&limit=200",
    "transactions/sh-0-1-b2",
    "usage",
    "members/m1_unknown",
    "transactions?shopId=sh-1-1&from=20260101&to=20260131",
)


class Sample(Struct, frozen=True):
    """The measurements of one interval."""

    seconds: float
    requests: int
    p99_ms: float
    supervisors_kb: int
    workers_kb: int
    descriptors: int
    wal_bytes: int


class Loader:
    """Loads the same bills again and again, changed each time, in its own thread."""

    def __init__(self, site: Attacked, world: World) -> None:
        self._site = site
        self._bills = [bill for (shop_id, _), bill in world.bills.items() if shop_id == "sh-0-1"]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.loads = 0

    def _run(self) -> None:
        for number in count():
            changed = [bill | {"cashier": f"cashier {number}"} for bill in self._bills[:LOADED_AT_ONCE]]
            self._site.load(*changed)
            self.loads += 1
            if self._stop.wait(0.2):
                return

    def __enter__(self) -> "Loader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)


def run(
    site: Attacked, world: World, *, seconds: float, every_sec: float, callers: int = 8
) -> tuple[list[Sample], list[str]]:
    """Run the soak test; return the samples and the faults in the responses."""
    key = site.issue("franchise", "fr-0", personal_data=True)
    pause(0.6)
    checker = Checker(Document.served_by(site.ports[0]))
    ports = site.ports
    group = [
        Caller(ports[number % len(ports)], key, TARGETS[number % len(TARGETS)], checker=checker)
        for number in range(callers)
    ]
    samples: list[Sample] = []
    began = time.monotonic()
    with Loader(site, world), ConcurrentCallers(group) as concurrent:
        while time.monotonic() - began < seconds:
            pause(every_sec)
            samples.append(_sample(site, time.monotonic() - began, _taken(group)))
        faults = concurrent.faults
    return samples, faults


def _taken(group: list[Caller]) -> list[Call]:
    """Return the calls since the last sample and delete them, so that the memory of this process does not grow."""
    found = []
    for caller in group:
        calls, caller.calls = caller.calls, []
        found += calls
    return found


def _sample(site: Attacked, seconds: float, calls: list[Call]) -> Sample:
    processes = site.processes()
    memory = {name: _resident_kb(pid) for name, pid in processes.items()}
    return Sample(
        seconds=round(seconds, 1),
        requests=len(calls),
        p99_ms=round(percentile([call.took * 1000 for call in calls], 0.99), 2),
        supervisors_kb=sum(kb for name, kb in memory.items() if name.startswith("supervisor")),
        workers_kb=sum(kb for name, kb in memory.items() if name.startswith("worker")),
        descriptors=sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in processes.values()),
        wal_bytes=sum(file.stat().st_size for file in site.office.store.glob("*-wal")),
    )


def _resident_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def unsteady(samples: list[Sample]) -> list[str]:
    """Return a message for each value that grew too much after the warm-up or exceeded its limit.

    Growth is measured from the first to the last quarter of the samples after the warm-up.
    """
    warm = samples[int(len(samples) * WARM_UP_SHARE) :]
    quarter = max(1, len(warm) // 4)
    found = []
    for name in ("supervisors_kb", "workers_kb"):
        values = [getattr(sample, name) for sample in warm]
        early, late = sum(values[:quarter]) / quarter, sum(values[-quarter:]) / quarter
        if late > early * (1 + MOST_GROWTH):
            found.append(f"{name} grew from {early:,.0f} to {late:,.0f}")
    early, late = (max(sample.descriptors for sample in part) for part in (warm[:quarter], warm[-quarter:]))
    if late > early:
        found.append(f"descriptors grew from {early} to {late}")
    wal = max(sample.wal_bytes for sample in samples)
    if wal > MOST_WAL_BYTES:
        found.append(f"the WAL files reached {wal:,} bytes")
    return found


# --- the saved results ----------------------------------------------------------------------


def write(samples: list[Sample], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "soak.csv").open("w", newline="", encoding="utf-8") as file:
        rows = [asdict(sample) for sample in samples]
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    (folder / "soak.svg").write_text(drawn(samples), "utf-8")


def drawn(samples: list[Sample]) -> str:
    """Return an SVG with one small curve per column, each scaled from 0 to its largest value."""
    columns = ("requests", "p99_ms", "supervisors_kb", "workers_kb", "descriptors", "wal_bytes")
    width, height, left = 640, 90, 60
    size = f'width="{width}" height="{height * len(columns)}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">']
    last = max(samples[-1].seconds, 1)
    for place, name in enumerate(columns):
        values = [float(getattr(sample, name)) for sample in samples]
        top, bottom, most = place * height + 22, place * height + height - 8, max([*values, 1.0])
        points = " ".join(
            f"{left + (width - left - 10) * sample.seconds / last:.1f},{bottom - (bottom - top) * value / most:.1f}"
            for sample, value in zip(samples, values, strict=True)
        )
        parts.append(f'<text x="{left}" y="{top - 6}">{name}: maximum {most:,.0f} in {last:,.0f} s</text>')
        parts.append(f'<line x1="{left}" y1="{bottom}" x2="{width - 10}" y2="{bottom}" stroke="#999"/>')
        parts.append(f'<polyline points="{points}" fill="none" stroke="#06c" stroke-width="1.5"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"
