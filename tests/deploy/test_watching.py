"""Tests for monitoring: alerts fire when they should, and a real Prometheus runs all queries we ship."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from cli.command import Command
from counterfoil.serving.metric_kinds import METRICS
from deploy.programs import DEPLOY, needs_program, output_of
from e2e.serve_process import SHOP, Deployment, ServeProcess
from running_service import free_port
from waiting import until

pytestmark = pytest.mark.programs

RULES = DEPLOY / "prometheus" / "counterfoil.rules.yml"
UNIT_TESTS = DEPLOY / "prometheus" / "counterfoil.test.yml"
SCRAPE = DEPLOY / "prometheus" / "scrape.yml"
DASHBOARD = json.loads((DEPLOY / "grafana" / "counterfoil.json").read_text("utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
# Metrics that exist only with PostgreSQL servers. The service in these tests has an embedded store.
OF_SERVERS = ("counterfoil_server_up", "counterfoil_server_lag_seconds")
# Metrics of `load --watch`, which does not run in these tests.
OF_WATCHED_FOLDERS = ("counterfoil_watched_folder_",)
MADE_BY_PROMETHEUS = {"", "_bucket", "_count", "_sum", "_total"}


def alerts() -> dict[str, str]:
    """Return the expression of each alert, keyed by name."""
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def queries() -> list[str]:
    """Return every query in the dashboard as Grafana would send it for all nodes."""
    chosen = {"$job": "counterfoil", "$instance": ".*", "$__rate_interval": "10s"}
    found = [target["expr"] for panel in PANELS for target in panel["targets"]]
    return [re.sub(r"\$\w+", lambda name: chosen[name[0]], query) for query in found]


def exported() -> set[str]:
    """Return the names of the metrics that the code exports, without suffixes such as `_total` and `_bucket`."""
    return {kind.name for kind in METRICS}


def test_alerts_and_dashboard_name_only_metrics_that_exist() -> None:
    known = {name + ending for name in exported() for ending in MADE_BY_PROMETHEUS}
    used = set(re.findall(r"counterfoil_\w+", " ".join([*alerts().values(), *queries()])))
    assert used
    assert used <= known


def test_every_metric_is_on_the_dashboard() -> None:
    shown = " ".join(queries())
    assert [name for name in sorted(exported()) if name not in shown] == []


def test_every_alert_is_tested_and_says_what_to_do() -> None:
    tried = UNIT_TESTS.read_text("utf-8")
    assert [name for name in alerts() if f'alertname="{name}"' not in tried] == []
    for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"]:
        for rule in group["rules"]:
            assert rule["labels"]["severity"] in ("page", "ticket"), rule["alert"]
            assert set(rule["annotations"]) == {"summary", "description"}, rule["alert"]


@needs_program("promtool", "prometheus")
def test_promtool_confirms_that_every_alert_fires_when_it_should_and_only_then() -> None:
    output_of("promtool", "test", "rules", UNIT_TESTS)


@needs_program("promtool", "prometheus")
def test_promtool_accepts_the_scrape_configuration_and_the_rules() -> None:
    assert f"{len(alerts())} rules found" in output_of("promtool", "check", "config", SCRAPE)


class Prometheus(httpx.Client):
    """A client for a real Prometheus server."""

    def found(self, path: str, **parameters: str) -> Any:
        answer = self.get(path, params=parameters).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression: str) -> list[Any]:
        found: list[Any] = self.found("query", query=expression)["result"]
        return found

    def scraped(self, times: int) -> bool:
        """Return whether Prometheus has started and has scraped the service this many times."""
        try:
            if self.get("status/runtimeinfo").status_code != 200:
                return False
            return bool(self.query(f"count_over_time(counterfoil_horizon_age_seconds[1m]) >= {times}"))
        except httpx.TransportError:
            return False


@contextmanager
def prometheus(folder: Path, target: int) -> Iterator[Prometheus]:
    """Run Prometheus on loopback with our configuration, scraping this admin listener every second."""
    config = yaml.safe_load(SCRAPE.read_text("utf-8"))
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(RULES)]
    config["scrape_configs"] = [job for job in config["scrape_configs"] if job["job_name"] == "counterfoil"]
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{target}"]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
    port = free_port()
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                *("prometheus", f"--config.file={folder / 'prometheus.yml'}"),
                *(f"--storage.tsdb.path={folder / 'series'}", f"--web.listen-address=127.0.0.1:{port}"),
            ],
            stdout=log,
            stderr=log,
        )
    try:
        with Prometheus(base_url=f"http://127.0.0.1:{port}/api/v1/", timeout=10) as opened:
            yield opened
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[tuple[ServeProcess, Prometheus]]:
    """A service whose latest load rejected a line, and a Prometheus that scrapes it."""
    deployment = Deployment(tmp_path)
    deployment.issue({"caller": {}})
    deployment.load(SHOP, b"nonsense")
    Command(deployment.store)("backup", tmp_path / "backup", "--without-secret")
    deployment.variables["COUNTERFOIL_NOTIFY_EVERY_SEC"] = "1"
    running = deployment.start()
    try:
        with prometheus(tmp_path, deployment.admin_port) as server:
            yield running, server
    finally:
        running.stop()


@pytest.mark.long
@needs_program("prometheus", "prometheus")
def test_prometheus_runs_every_query_and_sees_a_rejected_line(watched: tuple[ServeProcess, Prometheus]) -> None:
    running, server = watched

    def called_and_scraped() -> bool:
        running.get("shops", running.key("caller"))
        running.get("shops", "cf_live_unknown")
        return server.scraped(5)

    until(called_and_scraped, "Prometheus had scraped five times", 90)
    for query in queries():
        if any(name in query for name in OF_SERVERS + OF_WATCHED_FOLDERS):
            server.query(query)
        else:
            assert server.query(query), query
    for variable in DASHBOARD["templating"]["list"]:
        if named := re.fullmatch(r"label_values\((.+), (\w+)\)", variable.get("definition", "")):
            match = named[1].replace("$job", "counterfoil")
            assert server.found(f"label/{named[2]}/values", **{"match[]": match}), variable["name"]
    rules = until(lambda: known_to_be_well(server), "every rule was evaluated")
    assert {rule["name"] for rule in rules.values() if rule["state"] == "firing"} == {"CounterfoilOpenItems"}
    assert set(rules) == set(alerts())


def known_to_be_well(server: Prometheus) -> dict[str, Any] | None:
    rules = {rule["name"]: rule for group in server.found("rules")["groups"] for rule in group["rules"]}
    assert not [rule for rule in rules.values() if rule.get("lastError")]
    return rules if all(rule["health"] == "ok" for rule in rules.values()) else None
