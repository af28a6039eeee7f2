"""The full campaign, on SQLite and on PostgreSQL with Valkey. `python -m hostile` can send more requests."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hostile import campaign
from hostile.campaign import Result, started
from hostile.targets import BACK_ENDS, Site
from hostile.world import World

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("hostile, full form")]

both = pytest.mark.parametrize("back_end", sorted(BACK_ENDS))


def held(result: Result) -> dict[str, int | float]:
    """Fail if there were any faults; return the totals."""
    assert result.faults == [], "\n".join(result.faults)
    return result.totals


@both
def test_twenty_thousand_mutated_requests_get_documented_answers_or_a_refusal(back_end: str) -> None:
    world = World(7)
    with started(back_end, world) as site:
        held(campaign.requests(site, world, total=20_000, seed=7))


@both
def test_the_whole_scope_matrix_is_what_the_source_records_allow(back_end: str) -> None:
    world = World(franchises=4, bills=8)
    with started(back_end, world) as site:
        held(campaign.triples(site, world, total=None))


@both
def test_no_canary_is_answered_stored_or_logged_and_none_is_in_a_pulled_copy(back_end: str, tmp_path: Path) -> None:
    world = World()
    with started(back_end, world) as site:
        held(campaign.canaries(site, world))
        printed = pulled(site, tmp_path / "copy")
    assert (tmp_path / "copy").is_dir()
    assert campaign.pulled_copy_hits(tmp_path, world) == []
    (tmp_path / "printed").write_bytes(printed)
    assert campaign.pulled_copy_hits(tmp_path, world) == []


def pulled(site: Site, target: Path) -> bytes:
    """Run `counterfoil pull` with a key that has no permissions; return its output."""
    key = site.issue("franchise", "fr-0")
    environment = site.office.environment() | {
        "COUNTERFOIL_URL": f"http://127.0.0.1:{site.ports[0]}",
        "COUNTERFOIL_KEY": key,
    }
    target.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "counterfoil", "pull", "--to", f"{target}/"],
        env=environment,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@both
def test_limits_hold_over_nodes_and_workers_that_are_killed(back_end: str) -> None:
    with started(back_end, World()) as site:
        held(campaign.limits(site, seconds=75, per_min=150, kills=2))


@both
def test_forty_keys_revoked_in_use_stop_working_in_time(back_end: str) -> None:
    with started(back_end, World()) as site:
        held(campaign.revocations(site, total=32))
        held(campaign.revocations(site, total=8, by_command=True, at_once=1))


@both
def test_two_thousand_slow_sockets_do_not_keep_ordinary_callers_waiting(back_end: str) -> None:
    with started(back_end, World()) as site:
        held(campaign.sockets(site, total=2_000, seconds=15))


def test_no_outage_of_a_file_makes_an_answer_wrong() -> None:
    held(campaign.file_outages(seconds=2.5))


def test_no_outage_of_a_server_makes_an_answer_wrong() -> None:
    held(campaign.server_outages(seconds=4))


def test_a_short_soak_writes_its_curves(tmp_path: Path) -> None:
    world = World(bills=40)
    with started("sqlite", world) as site:
        totals = campaign.soaked(site, world, seconds=30, every_sec=1, folder=tmp_path).totals
    assert totals["requests"] > 1_000
    assert (tmp_path / "soak.csv").read_text("utf-8").count("\n") > 15
    assert (tmp_path / "soak.svg").read_text("utf-8").count("<polyline") == 6
    assert threading.active_count() < 20
