"""The supervisor replaces workers, holds the port for them, and logs what they write to standard error."""

import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from counterfoil.machine.addresses import is_listening
from counterfoil.serving.supervisor import hold_port
from counterfoil.settings import SettingsError
from e2e.serve_process import SHOP, Deployment, ServeProcess, alive
from faults.http_clients import Repeating
from records import bills
from running_service import free_port
from waiting import until

pytestmark = pytest.mark.programs

IPV4, IPV6 = ("127.0.0.1", "0.0.0.0"), ("::1", "::")  # noqa: S104 - the tests stay on this machine
NOBODY = 65534
RESTARTS = 10
# Sets the range of local ports of one socket, since Linux 6.3. Python 3.11 has no name for it.
IP_LOCAL_PORT_RANGE = 51

# Another user tries to listen on a port, with every combination of socket options. Prints the address if that succeeds.
_LISTEN_AS_NOBODY = f"""
import itertools, os, socket, sys
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
options = (socket.SO_REUSEADDR, socket.SO_REUSEPORT)
for host, *values in itertools.product(sys.argv[2:], (0, 1), (0, 1)):
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as other:
        for option, value in zip(options, values):
            other.setsockopt(socket.SOL_SOCKET, option, value)
        try:
            other.bind((host, int(sys.argv[1])))
            other.listen()
        except OSError:
            continue
        print(host, values)
"""


@contextmanager
def no_worker(deployment: Deployment, host: str) -> Iterator[ServeProcess]:
    """Run a service on this address whose only worker has died and cannot be replaced."""
    deployment.variables = {"COUNTERFOIL_HOST": host}
    running = deployment.start(ready=False)
    try:
        until(lambda: is_listening(host, deployment.port), "the service listens")
        lose_worker(running)
        until(lambda: b"worker_failed" in deployment.log.read_bytes(), "a worker could not start")
        yield running
    finally:
        running.stop()


def lose_worker(running: ServeProcess) -> None:
    """Kill the only worker. The next one cannot start, because a file of the store is missing."""
    store = running.deployment.store
    (store / "books.sqlite3").rename(store / "elsewhere")
    (worker,) = running.pids()
    os.kill(worker, signal.SIGKILL)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
@pytest.mark.parametrize(
    "host", [IPV4[0], IPV6[0], *(pytest.param(host, marks=pytest.mark.long) for host in (IPV4[1], IPV6[1]))]
)
def test_while_the_only_worker_is_dead_no_other_user_can_listen_on_the_port(tmp_path: Path, host: str) -> None:
    deployment = Deployment(tmp_path)
    with no_worker(deployment, host):
        # A socket on `::` also receives IPv4 connections.
        others = {"::1": IPV6, "::": IPV4 + IPV6}.get(host, IPV4)
        command = [sys.executable, "-c", _LISTEN_AS_NOBODY, str(deployment.port), *others]
        attempt = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
        assert attempt.stdout == ""
        assert not is_listening(host, deployment.port)


def test_a_service_that_has_no_worker_is_not_joined_by_a_second_service(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    with no_worker(deployment, "127.0.0.1"):
        assert f"cannot listen on 127.0.0.1:{deployment.port}" in deployment.refusal(COUNTERFOIL_ADMIN_PORT="0")


def test_a_worker_that_cannot_start_says_why_in_one_line_and_starts_when_it_can(tmp_path: Path) -> None:
    with no_worker(Deployment(tmp_path), "127.0.0.1") as running:
        (tmp_path / "store" / "elsewhere").rename(tmp_path / "store" / "books.sqlite3")
        until(lambda: running.admin("ready").status_code == 200, "the service was ready again")
        reasons = [line["detail"] for line in running.logged() if line.get("what") == "worker_failed"]
    assert reasons[0].startswith("books.sqlite3 is missing or empty")
    assert b"Traceback" not in running.deployment.log.read_bytes()


def test_port_0_is_any_free_port_that_all_workers_share(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    deployment.port = 0
    running = deployment.start(workers=2)
    ready = until(lambda: [line for line in running.logged() if line.get("what") == "ready"], "the service is ready")
    assert is_listening("127.0.0.1", int(ready[0]["detail"].rpartition(":")[2]))
    assert running.stop() == 0
    assert server_messages(running) == [], "workers that stop in time are not reported as killed"


# --- restarts ----------------------------------------------------------------------------


@contextmanager
def connection_to_itself(port: int) -> Iterator[None]:
    """Connect to a port on which nothing listens, from the same port. A client under load can get that port too."""
    with socket.socket() as caller:
        try:
            caller.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, struct.pack("HH", port, port))
        except OSError:
            pytest.skip("this kernel cannot limit the local ports of a socket")
        caller.connect(("127.0.0.1", port))
        yield


def test_a_port_that_an_outgoing_connection_uses_is_refused() -> None:
    port = free_port()
    with connection_to_itself(port), pytest.raises(SettingsError, match="the port is in use"):
        hold_port("127.0.0.1", port)


def test_the_port_of_a_service_is_never_given_to_an_outgoing_connection() -> None:
    refused = pytest.raises(OSError, match="Cannot assign requested address")
    with hold_port("127.0.0.1", 0) as held, refused, connection_to_itself(held.getsockname()[1]):
        pass


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_service_restarts_at_once_under_load(tmp_path: Path, number: signal.Signals) -> None:
    deployment = Deployment(tmp_path)
    deployment.load(SHOP, *bills(SHOP, 1))
    running = deployment.start()
    with load_on(deployment.port) as answered:
        for _ in range(RESTARTS):
            before, workers = answered[0], running.pids()
            until(lambda: answered[0] > before + 50, "the service is under load")  # noqa: B023
            running.process.send_signal(number)
            running.process.wait(30)
            until(lambda: not any(map(alive, workers)), "the workers have ended")  # noqa: B023
            running = deployment.start()
    assert running.stop() == 0
    assert server_messages(running) == []


@contextmanager
def load_on(port: int) -> Iterator[list[int]]:
    """Send requests on new connections all the time; yield a list with the number of responses so far."""
    answered = [0]

    def ask() -> None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=10) as caller:
            caller.sendall(b"GET /ext/v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n")
            answered[0] += caller.recv(100).startswith(b"HTTP/1.1 200")

    with ExitStack() as callers:
        for _ in range(4):
            callers.enter_context(Repeating(ask, every_sec=0.001))
        yield answered


# --- the log -----------------------------------------------------------------------------


def server_messages(running: ServeProcess) -> list[str]:
    """Return the messages of workers. Every line of the log must be JSON."""
    return [line["message"] for line in running.logged() if line["type"] == "server"]


def test_what_native_code_writes_to_standard_error_is_logged_line_by_line(tmp_path: Path) -> None:
    running = Deployment(tmp_path).start()
    (worker,) = running.pids()
    written = [
        b"thread 'tokio-rt-worker' panicked at src/lib.rs:1:2:",
        b'called `Result::unwrap()` on an "Err" value \xff\x1b[31m',
        b"x" * 5000,
        b"cut off",
    ]
    Path(f"/proc/{worker}/fd/2").write_bytes(b"\n".join(written))
    os.kill(worker, signal.SIGKILL)
    messages = until(lambda: len(found := server_messages(running)) >= 7 and found, "all is logged")
    assert messages == [
        "thread 'tokio-rt-worker' panicked at src/lib.rs:1:2:",
        'called `Result::unwrap()` on an "Err" value \\xff\x1b[31m',
        *("x" * 2048, "x" * 2048, "x" * 904),
        "cut off",
        "Unexpected exit from worker-1: Killed",
    ]
    assert running.stop() == 0


def test_the_traceback_of_a_worker_is_logged_in_the_chosen_format(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    deployment.variables = {"COUNTERFOIL_DEBUG": "1"}
    running = deployment.start()
    lose_worker(running)
    until(lambda: b"status 1" in deployment.log.read_bytes(), "the next worker has failed")
    assert running.stop() == 0
    assert "Traceback (most recent call last):" in server_messages(running)
