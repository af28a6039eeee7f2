"""Run the attack campaign with totals of your choice and print the results.

PYTHONPATH=tests python -m hostile all
PYTHONPATH=tests python -m hostile requests --total 1000000 --seed 7 --store postgres
PYTHONPATH=tests python -m hostile requests --seed 7 --only 4711
PYTHONPATH=tests python -m hostile triples --total 1000000
PYTHONPATH=tests python -m hostile soak --minutes 60 --folder soak
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from hostile import campaign
from hostile.campaign import Result, started
from hostile.world import World

BOTH = ("sqlite", "postgres")
DEFAULTS = {"requests": 100_000, "triples": 100_000, "revocations": 40, "sockets": 4_000}


def _requests(store: str, total: int, seed: int, only: int | None) -> Result:
    world = World(seed)
    with started(store, world) as site:
        return campaign.requests(site, world, total=total, seed=seed, only=only)


def _triples(store: str, total: int) -> Result:
    world = campaign.world_of(total)
    with started(store, world) as site:
        return campaign.triples(site, world, total=total)


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
@click.option("--total", type=int, help="Requests, triples, revocations or sockets.")
@click.option("--seed", default=1, show_default=True, help="The same seed sends the same requests.")
@click.option("--only", type=int, help="Send only the request with this number.")
@click.option("--seconds", default=150.0, show_default=True, help="How long the limits are tried.")
@click.option("--minutes", default=10.0, show_default=True, help="How long a soak lasts.")
@click.option("--folder", default="soak", show_default=True, type=Path, help="Where a soak writes its CSV and SVG.")
def main(
    part: str,
    store: tuple[str, ...],
    total: int | None,
    seed: int,
    only: int | None,
    seconds: float,
    minutes: float,
    folder: Path,
) -> None:
    """Start a service on loopback, attack it, and print totals. Exit with 1 if a promise was broken."""

    def number_of(name: str) -> int:
        return total if total is not None else DEFAULTS[name]

    parts: dict[str, Callable[[str], Result]] = {
        "requests": lambda where: _requests(where, number_of("requests"), seed, only),
        "triples": lambda where: _triples(where, number_of("triples")),
        "canaries": _canaries,
        "limits": lambda where: _limits(where, seconds),
        "revocations": lambda where: _revocations(where, number_of("revocations")),
        "sockets": lambda where: _sockets(where, number_of("sockets")),
        "outages": _outages,
        "soak": lambda where: _soak(where, minutes, folder),
    }
    broken = 0
    for name in [name for name in parts if name != "soak"] if part == "all" else [part]:
        for where in store or BOTH:
            began = time.monotonic()
            result = parts[name](where)
            _show(where, result, time.monotonic() - began)
            broken += bool(result.faults)
    sys.exit(1 if broken else 0)


def _show(where: str, result: Result, took: float) -> None:
    totals = "; ".join(f"{name} {value}" for name, value in result.totals.items())
    click.echo(f"{result.part:<12} {where:<9} {took:7.0f} s  faults {len(result.faults)}; {totals}")
    for fault in result.faults[:20]:
        click.echo(f"  {fault}")


if __name__ == "__main__":
    main()
