"""Tests for the output of a pull on a terminal."""

import io
import time
from contextlib import closing

import pytest
from rich.console import Console

import records as r
from counterfoil.cli.pull_display import PullDisplay, allowance, speed, stage, waiting
from counterfoil.client import Client
from counterfoil.client.connection import RATE_LIMIT, Environment
from counterfoil.client.pull import Options, Puller
from counterfoil.client.pull_state import Tally
from counterfoil.client.sinks.duckdb import DuckDBSink
from running_service import RunningService

NAME = "ครัวลำดวน Lamduan Kitchen [/bold] [red]: 2026-05-14 to 2026-06-13"


def shown(tally: Tally, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    glance = PullDisplay(console)
    glance.show(tally)
    with console.capture() as captured:
        console.print(glance.get_renderable())
    return [line.rstrip() for line in captured.get().splitlines()]


@pytest.mark.parametrize("width", [80, 100, 200])
def test_all_output_fits_a_terminal_of_eighty_columns(width: int) -> None:
    tally = Tally(
        requests=99,
        bills_read=123_456,
        remaining=999_680,
        reading=NAME,
    )
    first, second = shown(tally, width)
    for part in ("reading bills", "━━━", "123,456 bills", "quota left: 999,680"):
        assert part in first
    assert second.startswith("  ครัวลำดวน Lamduan Kitchen [/bold] [red]: 2026-05-14")


def test_waiting_for_the_rate_limit_is_shown_with_a_countdown() -> None:
    tally = Tally(reading="shop s-1", waiting_for=RATE_LIMIT, waiting_until=142.2)
    assert waiting(tally, 100.0) == "waiting for the rate limit: next request in 43 s"
    assert waiting(tally, 150.0) == "waiting for the rate limit: next request in 0 s"
    assert waiting(Tally(), 100.0) == ""
    tally.waiting_until = time.monotonic() + 600
    assert "waiting for the rate limit: next request in" in shown(tally, 80)[1]


def test_the_client_reports_that_it_waits_for_the_rate_limit(service: RunningService) -> None:
    branch = r.branch()
    service.load(branch, *r.bills(branch, 12))
    waits: list[tuple[str, bool]] = []

    def sleep(seconds: float) -> None:
        waits.append((puller.tally.waiting_for, 0 < seconds <= 61))
        service.clock.advance(seconds)
        passed[0] += seconds

    passed = [0.0]
    environment = Environment(lambda: time.monotonic() + passed[0], time.time, lambda: 0.5)
    url, key = f"{service.url}/ext/v1", service.key(franchise=branch["franchiseId"], per_min=4)
    with (
        Client(url, key, sleep=sleep, environment=environment) as client,
        closing(DuckDBSink(service.folder / "waiting.duckdb")) as sink,
    ):
        puller = Puller(client, sink, Options(limit=3))
        assert puller.run().bills_added == 12
    assert waits
    assert set(waits) == {(RATE_LIMIT, True)}
    assert puller.tally.waiting_for == ""


def test_the_members_are_the_last_stage() -> None:
    tally = Tally(bases=1, bills_read=5, members_read=1200)
    assert (stage(tally), speed(tally, 10)) == ("reading members", "1,200 members, 120/s")


def test_unknown_quantities_are_not_displayed() -> None:
    tally = Tally(bills_read=7)
    assert (speed(tally, 0.1), allowance(tally)) == ("7 bills", "")
