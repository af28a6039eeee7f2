"""Run the attack campaign with any number of requests and print the results.

PYTHONPATH=tests python -m hostile all
PYTHONPATH=tests python -m hostile requests --total 1000000 --seed 7 --store postgres
PYTHONPATH=tests python -m hostile requests --seed 7 --only 4711
PYTHONPATH=tests python -m hostile requests --total 10000000 --minutes 20 --slices slices.ndjson
PYTHONPATH=tests python -m hostile triples --total 1000000
PYTHONPATH=tests python -m hostile timing --total 1000000
PYTHONPATH=tests python -m hostile soak --minutes 60 --folder soak
"""

import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from hostile import campaign
from hostile.campaign import Result, started
from hostile.slices import Slice, Slices
from hostile.world import World

BOTH = ("sqlite", "postgres")
DEFAULTS = {"requests": 100_000, "triples": 100_000, "timing": 100_000, "revocations": 40, "sockets": 4_000}


def _requests(store: str, total: int, seed: int, *, only: int | None, first: int, minutes: float) -> Result:
    world = World(seed)
    with started(store, world) as site:
        if only is not None:
            return campaign.one_request(site, world, number=only, seed=seed)
        return campaign.requests(site, world, total=total, seed=seed, first=first, seconds=minutes * 60)


def _triples(store: str, total: int, seed: int, minutes: float) -> Result:
    world = campaign.world_of(total, seed)
    with started(store, world) as site:
        return campaign.triples(site, world, total=total, seconds=minutes * 60)


def _canaries(store: str) -> Result:
    world = World()
    with started(store, world) as site:
        return campaign.canaries(site, world)


def _limits(store: str, seconds: float) -> Result:
    with started(store, World()) as site:
        return campaign.limits(site, seconds=seconds)


def _revocations(store: str, total: int) -> Result:
    with started(store, World()) as site:
        return campaign.revocations(site, total=total)


def _sockets(store: str, total: int) -> Result:
    with started(store, World()) as site:
        return campaign.sockets(site, total=total, seconds=20)


def _outages(store: str) -> Result:
    return campaign.file_outages(seconds=3) if store == "sqlite" else campaign.server_outages(seconds=4)


def _soak(store: str, minutes: float, folder: Path) -> Result:
    world = World(bills=40, members=40)
    with started(store, world) as site:
        return campaign.soaked(site, world, seconds=minutes * 60, every_sec=5, folder=folder)


@click.command()
@click.argument("part", type=click.Choice(["all", *DEFAULTS, "canaries", "limits", "outages", "soak"]))
@click.option("--store", type=click.Choice(BOTH), multiple=True, help="Back end to attack; both by default.")
@click.option("--total", type=int, help="Number of requests, triples, samples per pair, revocations or sockets.")
@click.option("--seed", default=1, show_default=True, help="Random seed. The same seed generates the same requests.")
@click.option("--only", type=int, help="Send only the request with this number.")
@click.option("--seconds", default=150.0, show_default=True, help="Duration of `limits`.")
@click.option("--minutes", type=float, help="Duration of `soak` (default: 10) or limit for `requests` and `triples`.")
@click.option("--folder", default="soak", show_default=True, type=Path, help="Folder for the CSV and SVG of `soak`.")
@click.option("--slices", type=Path, help="Append totals to this file; continue after the last request counted in it.")
def main(
    part: str,
    store: tuple[str, ...],
    total: int | None,
    seed: int,
    only: int | None,
    seconds: float,
    minutes: float | None,
    folder: Path,
    slices: Path | None,
) -> None:
    """Attack services on loopback and print totals. Exit with status 1 if there were faults. `all` omits `soak`."""
    kept = Slices(slices)
    at_most = math.inf if minutes is None else minutes

    def number_of(name: str) -> int:
        return total if total is not None else DEFAULTS[name]

    parts: dict[str, Callable[[str], Result]] = {
        "requests": lambda where: _requests(
            where, number_of("requests"), seed, only=only, first=kept.next_number(where, seed), minutes=at_most
        ),
        "triples": lambda where: _triples(where, number_of("triples"), seed, at_most),
        "timing": lambda where: campaign.timing(where, samples=number_of("timing")),
        "canaries": _canaries,
        "limits": lambda where: _limits(where, seconds),
        "revocations": lambda where: _revocations(where, number_of("revocations")),
        "sockets": lambda where: _sockets(where, number_of("sockets")),
        "outages": _outages,
        "soak": lambda where: _soak(where, minutes or 10.0, folder),
    }
    broken = 0
    for name in [name for name in parts if name != "soak"] if part == "all" else [part]:
        for where in store or BOTH:
            began, load = time.monotonic(), os.getloadavg()[0]
            result = parts[name](where)
            took = time.monotonic() - began
            done = Slice(name, where, seed, took, load, os.getloadavg()[0], result.totals, result.faults)
            done.next_number = result.next_number
            kept.add(done)
            _show(kept.combined(name, where))
            broken += bool(result.faults)
    sys.exit(1 if broken else 0)


def _show(done: Slice) -> None:
    totals = "; ".join(
        f"{name} {value:,}" if isinstance(value, int) else f"{name} {value:,.3f}" for name, value in done.totals.items()
    )
    load = f"load {done.load_before:.0f} to {done.load_after:.0f}"
    click.echo(f"{done.part:<12} {done.store:<9} {done.seconds:7.0f} s, {load}; faults {len(done.faults)}; {totals}")
    for fault in done.faults[:20]:
        click.echo(f"  {fault}")


if __name__ == "__main__":
    main()
