"""Tests for the whole cluster on loopback: it starts with one command, survives the loss of a node, and cleans up."""

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from cli.command import PYTHON
from deploy.programs import DEPLOY, output_of
from e2e.serve_process import alive
from waiting import until

# Each of these tests starts a whole cluster, so they run only in `make test-long`.
pytestmark = pytest.mark.long

HAPROXY = shutil.which("haproxy") is not None or Path("/usr/sbin/haproxy").exists()
SMALL = ("--cluster", "--port", "0", "--bills", "600", "--until", "2026-09-30", "--json")


# In some sandboxes, only root can write to /dev/null. initdb runs as another user and must write to it, so it keeps
# the capability to ignore file permissions.
KEEP_RIGHTS = (
    ("setpriv", "--securebits=+no_setuid_fixup", "--inh-caps=+dac_override", "--ambient-caps=+dac_override")
    if os.getuid() == 0 and not Path(os.devnull).stat().st_mode & stat.S_IWOTH
    else ()
)


@contextmanager
def started(*words: object, scratch: Path) -> Iterator[tuple["subprocess.Popen[str]", Any]]:
    """Run a command that starts a cluster; yield its process and the JSON it prints once everything is running."""
    scratch.mkdir(exist_ok=True)
    # If root runs the tests, PostgreSQL runs as another user, who must be able to reach this folder.
    scratch.chmod(0o755)
    with (scratch / "said").open("ab") as said:
        process = subprocess.Popen(
            [*KEEP_RIGHTS, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=said,
            env=os.environ | {"TMPDIR": str(scratch), "PYTHON": sys.executable},
            text=True,
        )
    try:
        assert process.stdout
        line = process.stdout.readline()
        assert line, (scratch / "said").read_text("utf-8")
        yield process, json.loads(line)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A temporary folder that every user can enter, unlike the folders that pytest creates."""
    folder = Path(f"/tmp/counterfoil-cluster-{os.getpid()}")  # noqa: S108 - deleted after the test
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def part_of(told: Any, part: str, pattern: str = r"(\S+)") -> str:
    """Return what the demo says about a part of the cluster: its address, or what the pattern finds."""
    found = re.search(pattern, told["cluster"][part])
    assert found
    return found[1]


def addresses(told: Any) -> list[str]:
    return [part_of(told, name) for name in ("node 1", "node 2")]


def process_of(told: Any, part: str) -> int:
    return int(part_of(told, part, r"process (\d+)"))


def test_one_command_starts_a_cluster_that_survives_the_loss_of_a_node(open_folder: Path) -> None:
    with started(*PYTHON, "demo", *SMALL, scratch=open_folder / "a") as (process, told):
        key = next(key for key in told["keys"] if key["purpose"] == "franchise")
        asked = {"Authorization": f"Bearer {key['key']}"}
        shops = [httpx.get(f"{node}/ext/v1/shops", headers=asked).json()["data"] for node in addresses(told)]
        assert shops[0] == shops[1]
        assert {shop["shopId"] for shop in shops[0]} == set(key["shopIds"])
        # The replica receives the data from the primary.
        with psycopg.connect(part_of(told, "replica")) as replica:
            (standby,) = replica.execute("SELECT pg_is_in_recovery()").fetchone() or (False,)
            assert standby
            until(
                lambda: replica.execute("SELECT count(*) FROM counterfoil.bills").fetchone() == (600,),
                "the replica caught up",
            )
        if not HAPROXY:
            assert "HAProxy is not installed" in told["cluster"]["front"]
            os.kill(process_of(told, "node 1"), signal.SIGKILL)
            assert httpx.get(f"{addresses(told)[1]}/ext/v1/shops", headers=asked).status_code == 200
            return
        assert told["baseUrl"].startswith(told["cluster"]["front"])
        assert httpx.get(told["reference"]).headers["content-type"] == "text/html; charset=utf-8"
        assert set(told["environment"]) == {"COUNTERFOIL_STORE", "COUNTERFOIL_METER", "COUNTERFOIL_SECRET"}
        node = process_of(told, "node 1")
        workers = [int(pid) for pid in Path(f"/proc/{node}/task/{node}/children").read_text("ascii").split()]
        os.kill(node, signal.SIGKILL)
        until(lambda: "node1 exited" in (open_folder / "a" / "said").read_text("utf-8"), "the exit is reported")
        answers = []

        def answers_alone() -> bool:
            answers.append(httpx.get(f"{told['baseUrl']}/shops", headers=asked).json()["data"])
            return not any(alive(pid) for pid in workers)

        # Workers of a killed node keep answering for up to two seconds. After that the load balancer has one node left.
        until(answers_alone, "the workers of the killed node ended")
        answers += [httpx.get(f"{told['baseUrl']}/shops", headers=asked).json()["data"] for _ in range(20)]
        assert all(answer == shops[0] for answer in answers)
        usage = httpx.get(f"{told['baseUrl']}/usage", headers=asked).json()["data"]
        # Three more requests were counted: one to each node at the start, and the usage request itself.
        assert usage["today"]["count"] == len(answers) + 3
    assert process.returncode == 0
    assert [path.name for path in (open_folder / "a").iterdir()] == ["said"]


@pytest.mark.skipif(not HAPROXY, reason="HAProxy is not installed (Debian: apt-get install haproxy)")
def test_without_a_meter_the_load_balancer_passes_the_nodes_answers_on(open_folder: Path) -> None:
    """Without a meter, no node is ready. Clients must still get a node's JSON, not the load balancer's HTML."""
    with started(*PYTHON, "demo", *SMALL, scratch=open_folder / "a") as (_, told):
        key = next(key for key in told["keys"] if key["purpose"] == "franchise")
        asked = {"Authorization": f"Bearer {key['key']}"}

        def answer() -> httpx.Response:
            return httpx.get(f"{told['baseUrl']}/shops", headers=asked)

        assert answer().status_code == 200
        meter = process_of(told, "meter")
        os.kill(meter, signal.SIGSTOP)
        # These requests take so long that the load balancer notices that neither node is ready.
        for _ in range(4):
            assert (answer().status_code, answer().json()["error"]) == (503, "auth_unavailable")
        admin = part_of(told, "node 1", r"admin (http://[\d.:]+)")
        assert httpx.get(f"{admin}/ready").status_code == 503
        os.kill(meter, signal.SIGCONT)
        until(lambda: answer().status_code == 200, "the service answers again", patience_sec=5)


def test_two_clusters_run_side_by_side_and_an_empty_one_takes_a_load(open_folder: Path) -> None:
    script = DEPLOY / "local-cluster"
    with (
        started(script, "--json", scratch=open_folder / "a") as (_, one),
        started(script, "--json", scratch=open_folder / "b") as (_, two),
    ):
        assert set(addresses(one)).isdisjoint(addresses(two))
        source = open_folder / "shop.ndjson"
        source.write_text('{"kind":"shop","id":"sh_1","name":"Riverside"}\n', "utf-8")
        environment = os.environ | one["environment"]
        output_of(*PYTHON, "load", source, env=environment, cwd=open_folder)
        issuing = (*PYTHON, "keys", "issue", "--shop", "sh_1", "--json")
        key = json.loads(output_of(*issuing, env=environment, cwd=open_folder))["key"]
        for node in addresses(one):
            answer = httpx.get(f"{node}/ext/v1/shops", headers={"Authorization": f"Bearer {key}"})
            assert [shop["shopName"] for shop in answer.json()["data"]] == ["Riverside"]
        refused = httpx.get(f"{addresses(two)[0]}/ext/v1/shops", headers={"Authorization": f"Bearer {key}"})
        assert refused.status_code == 401
