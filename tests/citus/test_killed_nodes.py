"""Nodes of the cluster are killed during loads and reads: nothing is lost, and no `serverTime` is premature."""

import http.client
import json
import os
import signal
import threading
from collections import Counter
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import pytest

import servers
from citus.cluster import Node, cluster
from e2e.serve_process import SHOP, Deployment
from records import bills
from sync.killable_processes import KillableProcesses
from waiting import until

Json = dict[str, Any]

SHOPS = ("s0", "s1", "s2")
EVER = quote("1970-01-01T00:00:00Z")
READS = (
    "shops",
    "transactions?shopId=sh_1&from=20260101&to=20260101",
    f"transactions?shopId=sh_1&updatedSince={EVER}",
    "changes",
)


class Watcher:
    """Repeatedly reads all changes in every shop and compares them with earlier responses.

    After a response has reported a `serverTime`, no change may appear at or before
    that time, and no later response may report an earlier `serverTime`.
    """

    def __init__(self, port: int, key: str) -> None:
        self.broken: list[str] = []
        self.answers: Counter[int] = Counter()
        self._port = port
        self._headers = {"authorization": f"Bearer {key}"}
        self._told = datetime.fromisoformat("1970-01-01T00:00:00Z")
        self._seen: dict[str, tuple[datetime, dict[str, str]]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._stop.is_set():
            for shop_id in SHOPS:
                body = self._ask(f"transactions?shopId={shop_id}&updatedSince={EVER}&limit=200")
                if body:
                    self._compare(shop_id, body)

    def _ask(self, path: str) -> Json | None:
        line = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            line.request("GET", f"/ext/v1/{path}", headers=self._headers)
            answer = line.getresponse()
            body: Json = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError):
            self.answers[0] += 1
            return None
        finally:
            line.close()
        self.answers[answer.status] += 1
        return body if answer.status == 200 else None

    def _compare(self, shop_id: str, body: Json) -> None:
        assert body["nextCursor"] is None
        told = datetime.fromisoformat(body["serverTime"])
        found = {bill["id"]: bill["updatedAt"] for bill in body["data"]}
        if told < self._told:
            self.broken.append(f"{shop_id}: reported {told} after {self._told}")
        before, known = self._seen.get(shop_id, (None, {}))
        for bill_id, changed in found.items():
            if before and datetime.fromisoformat(changed) <= before and known.get(bill_id) != changed:
                self.broken.append(f"{shop_id}: {bill_id}, changed at {changed}, appeared after {before} was reported")
        self._told = max(self._told, told)
        self._seen[shop_id] = told, found

    def __enter__(self) -> "Watcher":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(60)


def run_killing(folder: Path, kills: int, seed: int) -> tuple[KillableProcesses, Watcher]:
    """Kill each node `kills` times, at random moments during loads, and start it again each time."""
    database, url = cluster().fresh_database()
    processes = KillableProcesses(folder, bills=450, seed=seed, store=url)
    version = 0
    try:
        processes.start("server", version)
        processes.start("loader", version)
        processes.finish("loader")
        assert len(set(cluster().places(database).values())) == len(cluster().workers)
        with Watcher(processes.port, processes.key) as watcher:
            for node in processes.chance.sample(cluster().nodes * kills, kills * len(cluster().nodes)):
                version += 1
                processes.start("loader", version)
                processes.start("puller", version)
                processes.start("follower", version)
                _kill_while_loading(processes, node)
            processes.finish_all(version)
        processes.assert_nothing_lost_or_doubled(version)
    finally:
        processes.close()
    return processes, watcher


def _kill_while_loading(processes: KillableProcesses, node: Node) -> None:
    """Kill a node during a load and start it again; then kill the loader and both clients.

    Killing the node counts only if the loader was still running.
    """
    processes.let_work("loader", processes.chance.uniform(0.1, 0.4))
    at_work = processes.running["loader"].poll() is None
    start = node.kill()
    processes.kills[f"{node.port} at work"] += at_work
    # Keep the node down while the server answers some requests from the watcher.
    processes.let_work("server", processes.chance.uniform(0.0, 0.2))
    start()
    for who in ("loader", "puller", "follower"):
        processes.let_work(who, processes.chance.uniform(0.0, 0.3))
        processes.kill(who)


@pytest.mark.parametrize("kills", [4, pytest.param(30, marks=pytest.mark.long)])
def test_nothing_is_lost_and_no_server_time_is_too_early_while_nodes_are_killed(tmp_path: Path, kills: int) -> None:
    processes, watcher = run_killing(tmp_path, kills, seed=kills)
    assert watcher.broken == []
    assert watcher.answers[200] > len(SHOPS) * kills
    assert min(processes.kills[f"{node.port} at work"] for node in cluster().nodes) > 0, processes.kills


@pytest.mark.parametrize(
    ("has_meter", "refusal"), [(False, (503, "auth_unavailable")), (True, (500, "internal"))], ids=["alone", "meter"]
)
def test_a_node_is_back_with_the_coordinator_even_if_its_worker_started_while_the_coordinator_was_down(
    tmp_path: Path, has_meter: bool, refusal: tuple[int, str]
) -> None:
    """The coordinator stores the keys and, without a meter, counts requests. With both in memory, only reads fail."""
    deployment = Deployment(
        tmp_path, store=cluster().fresh_database()[1], meter=servers.valkey().url if has_meter else ""
    )
    deployment.load(SHOP, *bills(SHOP, 30))
    deployment.issue({"plenty": {"per_min": 1_000_000, "per_day": 1_000_000}})
    running = deployment.start()

    def answers() -> list[tuple[int, str | None]]:
        found = [running.get(path, running.key("plenty")) for path in READS]
        return [(answer.status_code, answer.json().get("error")) for answer in found]

    try:
        assert answers() == [(200, None)] * len(READS)
        start = cluster().coordinator.kill()
        try:
            assert answers() == [refusal] * len(READS)
            (worker,) = running.pids()
            os.kill(worker, signal.SIGKILL)
            until(lambda: running.pids() - {worker}, "another worker had started")
            until(lambda: running.admin("serving").status_code == 200, "the worker answered")
            assert answers() == [(503, "auth_unavailable")] * len(READS)
        finally:
            start()
        until(lambda: answers() == [(200, None)] * len(READS), "every read was answered again")
    finally:
        running.stop()
