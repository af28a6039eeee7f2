"""Redocly runs the Arazzo description of the sync procedure against the demo."""

import json
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from msgspec import Struct

from counterfoil.http.openapi.operations import OPERATIONS
from e2e.served_demo import OFFLINE, PLAN, Demo, needs_node_tools, node_program, run

pytestmark = pytest.mark.programs

DESCRIPTION = Path(__file__).parents[2] / "docs" / "counterfoil.arazzo.yaml"

Json = dict[str, Any]


class Exchange(Struct, frozen=True):
    """A request made by a workflow, and the response."""

    path: str
    query: dict[str, str]
    status: int
    body: Json


def workflows() -> list[Json]:
    described: list[Json] = yaml.safe_load(DESCRIPTION.read_text("utf-8"))["workflows"]
    return described


def respect(demo: Demo, folder: Path, workflow: str, key: str, page: int = 200) -> list[Exchange]:
    """Run a workflow that must succeed; return its requests and responses."""
    text = DESCRIPTION.read_text("utf-8")
    assert text.count("value: 200\n") == 1
    (folder / "procedure.arazzo.yaml").write_text(text.replace("value: 200\n", f"value: {page}\n"))
    (folder / "openapi.json").write_bytes(demo.server.client.get(f"{demo.url}/ext/v1/openapi.json").content)
    first = PLAN.until - timedelta(days=30)
    # The key is passed in an environment variable because command-line arguments are visible to other users.
    inputs = {"REDOCLY_CLI_RESPECT_INPUT": f"key={key},from={first:%Y%m%d},to={PLAN.until:%Y%m%d}"}
    told = run(
        node_program("redocly"),
        "respect",
        "procedure.arazzo.yaml",
        f"--workflow={workflow}",
        f"--server=counterfoil={demo.url}/ext",
        "--har-output=requests.har",
        cwd=folder,
        environment=OFFLINE | inputs,
    )
    recorded = (folder / "requests.har").read_text("utf-8")
    assert key not in told + recorded
    return [exchange(entry) for entry in json.loads(recorded)["log"]["entries"]]


def exchange(entry: Json) -> Exchange:
    url = httpx.URL(entry["request"]["url"])
    response = entry["response"]
    return Exchange(
        url.path.removeprefix("/ext/v1/"), dict(url.params), response["status"], json.loads(response["content"]["text"])
    )


def rows(exchanges: Iterable[Exchange], path: str, **query: str) -> list[Json]:
    """Return the rows from all responses to requests for this path with these parameters."""
    return [
        row
        for exchange in exchanges
        if exchange.path == path and query.items() <= exchange.query.items()
        for row in exchange.body["data"]
    ]


@needs_node_tools
def test_the_arazzo_workflows_read_every_bill_and_member_of_a_shop(demo: Demo, tmp_path: Path) -> None:
    exchanges = respect(demo, tmp_path, "twoRuns", demo.key("franchise"), page=20)
    first, later = (number for number, exchange in enumerate(exchanges) if exchange.path == "shops")
    later_run = exchanges[later:]
    assert first == 0
    assert all(exchange.status == 200 for exchange in exchanges)

    listed = exchanges[first].body
    shop_id = listed["data"][0]["shopId"]
    by_change = [bill["id"] for bill in rows(exchanges, "transactions", updatedSince="1970-01-01T00:00:00Z")]
    assert {(shop_id, bill_id) for bill_id in by_change} == demo.held({shop_id}, tracked_only=True)
    assert len(by_change) == len(set(by_change)) > 20
    by_day = {bill["id"] for bill in rows(exchanges, "transactions", to=f"{PLAN.until:%Y%m%d}")}
    assert len(by_day) > 20
    assert {(shop_id, bill_id) for bill_id in by_day} <= demo.held({shop_id})

    marks = [exchange.query["updatedSince"] for exchange in later_run if exchange.path == "transactions"]
    assert marks == [listed["serverTime"]]
    members = [member["memberId"] for member in rows(later_run, "members")]
    assert len(members) == len(set(members)) > 20


@needs_node_tools
@pytest.mark.long
def test_the_arazzo_workflows_wait_when_the_limit_per_minute_is_reached(demo: Demo, tmp_path: Path) -> None:
    statuses = [exchange.status for exchange in respect(demo, tmp_path, "firstRun", demo.key("tiny limits"))]
    assert 429 in statuses
    assert statuses[-1] == 200


def test_the_arazzo_description_names_only_operations_and_workflows_that_exist() -> None:
    known = {operation.id for operation in OPERATIONS} | {workflow["workflowId"] for workflow in workflows()}
    for workflow in workflows():
        for step in workflow["steps"]:
            assert {step.get("operationId"), step.get("workflowId")} & known, step["stepId"]


def test_every_request_of_the_arazzo_description_handles_limits_and_failures() -> None:
    actions = ["waitForMinute", "stopForToday", "tryAgain"]
    for workflow in workflows():
        for step in workflow["steps"]:
            if "operationId" in step:
                assert [action["reference"].rpartition(".")[2] for action in step["onFailure"]] == actions
