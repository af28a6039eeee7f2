"""Tests for `counterfoil demo`, run as a separate process."""

import json
import os
import shlex
import signal
import socket
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from cli.command import PYTHON, Command
from console.running_console import console_client, signed_in
from counterfoil import bootstrap, settings
from counterfoil.demo import showcase
from counterfoil.demo.worldgen.plan import WorldPlan
from counterfoil.machine.addresses import is_free, reserved_port
from notice_receiver import Receiver
from running_service import free_port
from waiting import until

pytestmark = pytest.mark.programs

SMALL = ("--port", "0", "--bills", "800", "--until", "2026-09-30")
TABLES = ("shops", "bases", "members", "accounts", "bills", "horizon")


Demo = subprocess.Popen[str]


@contextmanager
def demo(*arguments: object, scratch: Path, log: int = subprocess.DEVNULL) -> Iterator[Demo]:
    scratch.mkdir(exist_ok=True)
    environment = os.environ | {"TMPDIR": str(scratch)}
    process = subprocess.Popen(
        [*PYTHON, "demo", *map(str, arguments)], stdout=subprocess.PIPE, stderr=log, env=environment, text=True
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        if process.stdout:
            process.stdout.close()


def read_line(process: Demo) -> Any:
    assert process.stdout
    return json.loads(process.stdout.readline())


def read_page(process: Demo, is_last: Callable[[str], bool]) -> list[str]:
    """Return the lines of the page that the demo prints, up to its last one."""
    assert process.stdout
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if is_last(lines[-1]):
            return lines
    raise AssertionError("the demo ended before it had printed its whole page")


@pytest.fixture(scope="module")
def printing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Demo, list[str]]]:
    """A demo process, and the lines of the page that it has printed. Its log follows on the same stream.

    The process is shared, because a demo starts slowly.
    """
    with demo(*SMALL, "--all", scratch=tmp_path_factory.mktemp("scratch"), log=subprocess.STDOUT) as process:
        yield process, read_page(process, lambda line: line.endswith("openapi.json'"))


def ask(address: str, key: str) -> httpx.Response:
    return httpx.get(address, headers={"Authorization": f"Bearer {key}"})


def test_the_json_line_has_everything_that_a_caller_needs_and_the_service_answers(tmp_path: Path) -> None:
    with demo(*SMALL, "--json", scratch=tmp_path) as process:
        told = read_line(process)
        keys, ids, base = {key["purpose"]: key for key in told["keys"]}, told["samples"], told["baseUrl"]
        for purpose, key in keys.items():
            shops = ask(f"{base}/shops", key["key"])
            assert shops.status_code == (401 if purpose == "revoked" else 200)
            if shops.status_code == 200:
                assert {shop["shopId"] for shop in shops.json()["data"]} == set(key["shopIds"])
        _samples_answer(base, keys, ids)
        assert ask(f"{base}/shops", keys["revoked"]["key"]).json()["error"] == "key_revoked"
        tiny = [ask(f"{base}/usage", keys["tiny limits"]["key"]).status_code for _ in range(3)]
        assert tiny == [200, 200, 429]
        assert httpx.get(told["openapi"]).json()["openapi"].startswith("3.1")
        _reference_is_served(told["reference"], keys)
        assert httpx.get(f"{told['admin']}/ready").status_code == 200
        _console_shows_the_last_days(told["console"], keys)
    assert process.returncode == 0
    assert not list(tmp_path.iterdir())


def _reference_is_served(address: str, keys: dict[str, Any]) -> None:
    page = httpx.get(address)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    # The page does not refuse a foreign name, through which DNS rebinding could read it, because it has no keys.
    assert not any(key["key"] in page.text for key in keys.values())


def _console_shows_the_last_days(link: str, keys: dict[str, Any]) -> None:
    with signed_in(link) as client:
        today = client.get("/today.json").json()
        assert today["keys"][0]["keyId"] == keys["franchise"]["keyId"]
        # The store is new, although its keys are as old as its bills.
        assert "backup_missing" not in [finding["code"] for finding in today["findings"]]
        assert all(day["requests"] > 100 for day in today["days"][:-1])
        assert client.get("/personal-data.json").json()["byKey"][0]["label"] == "Loyalty engine"
        copies = client.get(f"/keys/{keys['franchise']['keyId']}.json").json()["copies"]
        assert {"fresh", "behind"} <= {copy["state"] for copy in copies}


def _samples_answer(base: str, keys: dict[str, Any], ids: dict[str, Any]) -> None:
    bill = ask(f"{base}/transactions/{ids['transactionId']}", keys["franchise"]["key"]).json()["data"]
    assert bill["shopId"] == ids["shopId"]
    member = ask(f"{base}/members/{ids['memberId']}", keys["personal data"]["key"]).json()["data"]
    assert {"tel", "email"} <= set(member)
    who = f"providerId={ids['providerId']}&messagingUserId={ids['messagingUserId']}"
    found = ask(f"{base}/members/lookup?{who}", keys["lookup"]["key"]).json()["data"]
    assert found == {"memberId": ids["memberId"]}


def test_the_demo_sends_nothing_to_the_receivers_of_the_operator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Receiver() as receiver:
        for name, value in (("NOTIFY_URL", receiver.url), ("HEARTBEAT_URL", receiver.url), ("NOTIFY_EVERY_SEC", "1")):
            monkeypatch.setenv(f"COUNTERFOIL_{name}", value)
        with demo(*SMALL, "--json", scratch=tmp_path) as process:
            metrics = f"{read_line(process)['admin']}/metrics"
            until(
                lambda: "counterfoil_notices_failing" in httpx.get(metrics).text, "the service has not checked itself"
            )
        receiver.shutdown()
        assert receiver.received == []


def test_the_demo_prints_three_things_to_do_and_one_key_and_they_work_when_pasted(tmp_path: Path) -> None:
    with demo(*SMALL, scratch=tmp_path) as process:
        page = read_page(process, lambda line: line.startswith("Press Ctrl-C"))
        assert [line[:3] for line in page if line[:1].isdigit()] == ["1. ", "2. ", "3. "]
        (key,) = (line.removeprefix("KEY=") for line in page if line.startswith("KEY="))
        assert "\n".join(page).count("cf_live_") == 1
        (console,) = (line for line in page if "/sign-in#" in line)
        with signed_in(console):
            pass
        (request,) = (shlex.split(line) for line in page if line.startswith("curl "))
        assert request[3] == "Authorization: Bearer $KEY"
        assert ask(request[-1], key).json()["data"]
        (pull,) = (shlex.split(line) for line in page if " pull " in line)
        assert pull[0] == "COUNTERFOIL_KEY=$KEY"
        environment = {**os.environ, "COUNTERFOIL_KEY": key}
        subprocess.run(pull[1:], cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert (tmp_path / "copy.sqlite").exists()


def test_every_curl_line_of_the_page_works_when_pasted(printing: tuple[Demo, list[str]]) -> None:
    _, page = printing
    (address,) = (line.split()[-1] for line in page if line.startswith("API reference"))
    assert httpx.get(address).status_code == 200
    lines = [shlex.split(line) for line in page if line.startswith("curl ") and "$KEY" not in line]
    assert len(lines) == 11
    for words in lines:
        headers = dict([words[3].split(": ", 1)]) if "-H" in words else {}
        answer = httpx.get(words[-1], headers=headers)
        assert answer.status_code == 200, words[-1]
        assert answer.json().get("data", True)


def test_the_demo_prints_its_page_before_the_log_and_says_how_to_stop(printing: tuple[Demo, list[str]]) -> None:
    process, page = printing
    assert not any(line.startswith("{") for line in page)
    httpx.get(page[-1].split("'")[1], headers={"X-Request-Id": "mine"})
    assert process.stdout
    assert process.stdout.readline() == "\n"
    assert process.stdout.readline() == "Press Ctrl-C to stop the demo. The log follows.\n"
    logged = iter(process.stdout)
    assert json.loads(next(logged))["what"] == "ready"
    assert any(json.loads(line).get("request_id") == "mine" for line in logged)


def test_the_printed_command_makes_another_link_for_the_console_of_the_demo(printing: tuple[Demo, list[str]]) -> None:
    _, page = printing
    (command,) = [shlex.split(line.partition("run: ")[2]) for line in page if "For another link, run: " in line]
    words = command[command.index("console") :]
    made = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    link = json.loads(made.stdout)["console"]
    with signed_in(link), console_client(link.partition("/sign-in#")[0]) as stranger:
        assert shlex.join(["counterfoil", *words]) in stranger.get("/sign-in").text


def test_a_store_that_the_demo_keeps_can_be_loaded_into_later(counterfoil: Command, tmp_path: Path) -> None:
    with demo(*SMALL, "--json", "--store", counterfoil.store, scratch=tmp_path) as process:
        base_id = read_line(process)["samples"]["providerId"]
    member = tmp_path / "member.ndjson"
    member.write_text(json.dumps({"kind": "member", "id": "late", "providerId": base_id}) + "\n", "utf-8")
    assert json.loads(counterfoil("load", "--json", member).stdout)["added"] == 1
    assert (counterfoil.store / "secret").stat().st_mode & 0o777 == 0o600


def test_two_demos_that_start_at_once_have_different_ports_and_both_answer(tmp_path: Path) -> None:
    words = ("--port", "0", "--bills", "500", "--workers", "1", "--json")
    with demo(*words, scratch=tmp_path / "a") as first, demo(*words, scratch=tmp_path / "b") as second:
        printed = [read_line(process) for process in (first, second)]
        addresses = [found[name] for found in printed for name in ("baseUrl", "admin", "console")]
        assert len({urlsplit(address).port for address in addresses}) == len(addresses)
        for found in printed:
            assert ask(f"{found['baseUrl']}/shops", found["keys"][0]["key"]).status_code == 200
            assert httpx.get(f"{found['admin']}/ready").status_code == 200
            with signed_in(found["console"]):
                pass


def test_a_reserved_port_is_given_to_nobody_else_and_can_be_used_by_its_number() -> None:
    with ExitStack() as reserved:
        ports = [reserved_port("127.0.0.1", reserved) for _ in range(50)]
        assert not {free_port() for _ in range(300)} & set(ports)
        assert all(is_free("127.0.0.1", port) for port in ports)


def test_a_port_in_use_is_reported_before_any_work(counterfoil: Command, store: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        for refused in (counterfoil(command, "--port", port, status=1) for command in ("demo", "serve")):
            assert (
                f"cannot listen on 127.0.0.1:{port}: the port is in use. Choose another with --port" in refused.stderr
            )
        for command in ("demo", "serve"):
            said = counterfoil(command, "--port", free_port(), "--admin-port", port, status=1).stderr
            assert f"cannot listen on 127.0.0.1:{port}: the port is in use. Choose another with --admin-port" in said
        # Without --admin-port, the admin listener uses the port after --port.
        said = counterfoil("demo", "--port", port - 1, status=1).stderr
        assert "--admin-port" in said or f"127.0.0.1:{port - 1}" in said
    assert not (store / "books.sqlite3").exists()


def test_an_address_that_this_machine_does_not_have_is_named_with_its_flag(counterfoil: Command) -> None:
    assert "Choose another with --host" in counterfoil("serve", "--host", "192.0.2.1", status=1).stderr
    assert "Not a valid host name" in counterfoil("serve", "--host", "é" * 300, status=1).stderr
    refused = counterfoil("serve", "--port", free_port(), "--admin-host", "192.0.2.1", status=1).stderr
    assert "Choose another with --admin-host" in refused


@pytest.fixture(scope="module")
def plan() -> WorldPlan:
    return WorldPlan(until=date(2026, 9, 30), seed=11, bills=300, members=60, days=30)


def build(store: Path, plan: WorldPlan) -> showcase.Showcase:
    effective = settings.load({"store": str(store), "secret": showcase.demo_secret(plan.seed)}, {})
    return showcase.build(effective, plan, lambda purpose: showcase.seeded_randomness(plan.seed, purpose))


def rows(store: Path) -> list[list[object]]:
    with closing(sqlite3.connect(store / "books.sqlite3")) as connection:
        return [connection.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES]  # noqa: S608 - fixed names


def test_the_same_seed_gives_the_same_group_keys_and_stamps(tmp_path: Path, plan: WorldPlan) -> None:
    first, second = build(tmp_path / "a", plan), build(tmp_path / "b", plan)
    assert first == second
    assert rows(tmp_path / "a") == rows(tmp_path / "b")


def test_a_store_that_already_holds_the_demo_is_used_again(tmp_path: Path, plan: WorldPlan) -> None:
    first = build(tmp_path / "a", plan)
    assert build(tmp_path / "a", plan) == first
    effective = settings.load({"store": str(tmp_path / "a")}, {})
    with closing(bootstrap.store(effective).key_store()) as key_store:
        assert len(key_store.all()) == len(first.keys)
