"""`counterfoil console` runs in a process of its own and prints sign-in links."""

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from cli.command import PYTHON, SHOPS, Command
from console.running_console import SAME_ORIGIN, console_client, signed_in
from counterfoil.machine.addresses import is_listening
from records import branch
from running_service import SECRET, RunningService, free_port
from waiting import until

pytestmark = pytest.mark.programs


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    Command(folder)("load", "-", stdin=b"\n".join(SHOPS))
    return folder


@contextmanager
def console(store: Path, port: int, flag: str = "--json", **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    words = [*PYTHON, "console", "--store", str(store), "--console-port", str(port), flag]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COUNTERFOIL_")}
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, env=environment | variables) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(20)


def printed_link(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout
    return str(json.loads(process.stdout.readline())["console"])


def test_the_printed_link_signs_in_and_a_second_link_can_be_made(store: Path) -> None:
    port = free_port()
    with console(store, port) as process:
        link = printed_link(process)
        assert re.match(rf"http://[a-z2-7]{{20}}\.localhost:{port}/sign-in#", link)
        with signed_in(link) as client:
            assert client.get("/keys.json").json()["counts"]["active"] == 0
        another = Command(store).json("console", "link", "--console-port", port)["console"]
        assert another.partition("#")[0] == link.partition("#")[0]
        with signed_in(another) as client:
            assert client.get("/shops.json").json()["counts"]["empty"] == 2
        proxied = Command(store).json("console", "link", "--console-port", port, "--url", "https://console.example.com")
        assert proxied["console"].startswith("https://console.example.com/sign-in#")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_a_console_whose_output_is_kept_prints_no_link_and_accepts_one_that_is_made_later(store: Path) -> None:
    port = free_port()
    with console(store, port, "--no-link") as process:
        until(lambda: is_listening("127.0.0.1", port), "the console listens")
        made = Command(store).json("console", "link", "--console-port", port)["console"]
        with signed_in(made) as client:
            assert client.get("/keys.json").status_code == 200
        process.terminate()
        assert process.stdout
        assert process.stdout.read() == b""


def test_a_device_survives_a_restart_of_the_console_and_ends_when_it_is_revoked(store: Path) -> None:
    port, run = free_port(), Command(store)
    words = ("link", "--for", "kitchen phone", "--role", "reader", "--days", 30, "--console-port", port)
    with console(store, port) as process:
        printed_link(process)
        made = run.json("console", *words)
        with signed_in(made["console"]) as client:
            cookies = dict(client.cookies)
    with console(store, port) as process, console_client(made["console"].partition("/sign-in#")[0]) as phone:
        printed_link(process)
        phone.cookies.update(cookies)
        assert phone.get("/shops.json").status_code == 200
        assert phone.post("/keys/new", data={"label": "ERP"}, headers=SAME_ORIGIN).status_code == 403
        listed = {row["deviceId"]: row for row in run.json("console", "devices")}
        assert listed[made["deviceId"]]["state"] == "signed_in"
        run("console", "revoke", made["deviceId"])
        assert phone.get("/shops.json").status_code == 401
        assert made["deviceId"] not in {row["deviceId"] for row in run.json("console", "devices")}
        (revoked,) = [row for row in run.json("console", "devices", "--all") if row["deviceId"] == made["deviceId"]]
        assert revoked["state"] == "revoked"
        run("console", "revoke", "--all")
        assert run.json("console", "devices") == []


def test_commands_about_devices_refuse_what_they_cannot_do(store: Path) -> None:
    run = Command(store)
    assert "console_max_days" in run("console", "link", "--days", 91, status=2).stderr
    assert "at most 24h" in run("console", "link", "--valid-for", "2d", status=2).stderr
    not_running = run("console", "link", "--console-port", free_port(), status=1)
    assert "no console is running at" in not_running.stderr
    assert "0123456789" in run("console", "revoke", "0123456789", status=1).stderr
    for words in ((), ("0123456789", "--all")):
        run("console", "revoke", *words, status=2)
    assert run.bare("console", "--store", store, "devices", "--json").stdout == "[]\n"


def test_an_address_at_which_browsers_do_not_look_is_explained(store: Path) -> None:
    with socket.create_server(("127.0.0.2", 0)) as listening:
        port = listening.getsockname()[1]
        made = Command(store)("console", "link", "--console-host", "127.0.0.2", "--console-port", port)
    assert f"/etc/hosts: 127.0.0.2 {httpx.URL(made.stdout.strip()).host}\n" in made.stderr


def test_the_service_answers_when_the_console_is_killed(tmp_path: Path) -> None:
    with closing(RunningService(tmp_path)) as service:
        shop = branch()
        service.load(shop)
        key = service.key(shop=shop["id"])
        with console(service.settings.store, free_port(), COUNTERFOIL_SECRET=SECRET) as process:
            with signed_in(printed_link(process)) as client:
                assert client.get("/keys.json").json()["counts"]["active"] == 1
            process.kill()
            assert process.wait(20) == -signal.SIGKILL
            assert service.get("shops", key).status_code == 200


def test_a_console_needs_a_store(tmp_path: Path) -> None:
    Command(tmp_path / "nothing")("console", "--console-port", free_port(), status=1)
    assert not (tmp_path / "nothing").exists()
