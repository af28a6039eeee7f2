"""The example requests in the reference work unchanged against a real service."""

import contextlib
import io
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from counterfoil.http.openapi.operations import OPERATIONS
from counterfoil.http.reference import build
from counterfoil.http.reference.calls import ExampleCall, samples
from records import base, bill, branch, member
from running_service import RunningService

USER = "U0123456789abcdef0123456789abcdef"
CALLS = [(endpoint.anchor, number) for endpoint in build("", "", {}).endpoints for number in range(len(endpoint.calls))]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with contextlib.closing(RunningService(tmp_path_factory.mktemp("samples"))) as service:
        yield service


@pytest.fixture(scope="module")
def calls(service: RunningService) -> dict[str, list[ExampleCall]]:
    """The example calls for each operation, with the IDs of records in the store."""
    of = branch()
    person = member(of, messaging=[{"userId": USER}])
    sold = bill(of, closedAt="2026-01-01T12:00:00+07:00")
    service.load(of, base(of), person, sold)
    values = {
        "shopId": of["id"],
        "providerId": of["providerId"],
        "billId": sold["id"],
        "memberToken": service.token(person["id"]),
        "messagingUserId": USER,
        "from": "20260101",
        "to": "20260131",
        "updatedSince": "2000-01-01T00:00:00.000Z",
    }
    os.environ["BASE"] = f"{service.url}/ext/v1"
    os.environ["KEY"] = service.key(franchise=of["franchiseId"], per_min=10_000, messaging_lookup=True)
    service.clock.advance(1)
    return {endpoint.anchor: endpoint.calls for endpoint in build("/ext", os.environ["BASE"], values).endpoints}


def test_every_operation_has_a_call() -> None:
    assert {operation for operation, _ in CALLS} == {operation.id for operation in OPERATIONS}


@pytest.mark.parametrize("place", CALLS, ids=str)
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not on the PATH, so its examples were NOT run")
def test_the_curl_line_of_a_call_works(calls: dict[str, list[ExampleCall]], place: tuple[str, int]) -> None:
    line = samples(calls[place[0]][place[1]])[0].text
    body: Any = json.loads(subprocess.run(["bash", "-c", line], capture_output=True, check=True).stdout)
    assert body.get("data") or body.get("openapi"), body


@pytest.mark.parametrize("place", CALLS, ids=str)
@pytest.mark.parametrize("language", ["counterfoil.client", "httpx"])
def test_the_python_of_a_call_works(calls: dict[str, list[ExampleCall]], place: tuple[str, int], language: str) -> None:
    (text,) = (sample.text for sample in samples(calls[place[0]][place[1]]) if sample.label == language)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(text, "sample", "exec"), {})  # noqa: S102 - this runs the sample under test
    assert printed.getvalue().strip()


def require(program: str) -> None:
    asked = ["php", "-r", "exit(function_exists('curl_init') ? 0 : 1);"] if program == "php" else [program, "--version"]
    if shutil.which(program) is None or subprocess.run(asked, capture_output=True, check=False).returncode:
        pytest.skip(f"{program} is not on the PATH or lacks its curl extension, so its examples were NOT run")


PROGRAMS = [("JavaScript", ["node", "--input-type=module", "-"]), ("PHP", ["php"])]


@pytest.mark.programs
@pytest.mark.parametrize("place", CALLS, ids=str)
@pytest.mark.parametrize(("label", "command"), PROGRAMS)
def test_a_call_works_in_other_languages(
    calls: dict[str, list[ExampleCall]], place: tuple[str, int], label: str, command: list[str]
) -> None:
    require(command[0])
    (text,) = (sample.text for sample in samples(calls[place[0]][place[1]]) if sample.label == label)
    done = subprocess.run(command, input=text, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.programs
@pytest.mark.parametrize(("label", "command"), PROGRAMS)
@pytest.mark.parametrize("operation", ["getUsage", "listShops"])
def test_a_refused_request_ends_a_sample_with_an_error(
    calls: dict[str, list[ExampleCall]], label: str, command: list[str], operation: str
) -> None:
    require(command[0])
    (text,) = (sample.text for sample in samples(calls[operation][0]) if sample.label == label)
    environment = os.environ | {"KEY": "cf_live_unknown"}
    done = subprocess.run(command, input=text, capture_output=True, check=False, text=True, env=environment)
    assert done.returncode != 0
    assert "invalid_key" in done.stdout + done.stderr
