"""A service stops within a time limit, even if a server or client does not respond, and saves the records it can."""

import asyncio
import fcntl
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

import servers
from counterfoil.backends.postgres.servers import Servers
from counterfoil.backends.postgres.usage import PostgresUsage
from counterfoil.domain.request_records import RequestRecord
from counterfoil.machine.addresses import is_listening
from counterfoil.ports import STOP_SAVE_SEC, StoreUnavailable
from counterfoil.program.clock import SystemClock
from counterfoil.serving.supervisor import stop_limit_sec
from e2e.serve_process import COMMAND, SHOP, Deployment, ServeProcess, alive, is_pending
from faults.multi_node import BY_DAY, MultiNodeDeployment
from faults.proxy import Proxy
from records import bills
from waiting import throughout, until

pytestmark = pytest.mark.programs

GRACE_SEC = 10
# A busy machine may need this much longer.
SLACK_SEC = 5.0
# This many responses together do not fit into the buffers of a connection.
UNREAD_RESPONSES = 400

_WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%bill_day%'"
_BACKENDS = "SELECT pid FROM pg_stat_activity WHERE datname = '{}' AND application_name = 'counterfoil'"


# --- the process -----------------------------------------------------------------------


def seconds_to_stop(running: ServeProcess) -> float:
    """Ask the service to stop; return how many seconds it takes to exit."""
    asked = time.monotonic()
    running.process.send_signal(signal.SIGTERM)
    running.process.wait(stop_limit_sec(GRACE_SEC) + SLACK_SEC)
    return time.monotonic() - asked


def test_a_node_whose_store_is_silent_stops_in_time_and_reports_what_it_could_not_store(
    multi_node: MultiNodeDeployment,
) -> None:
    node = multi_node.node()
    client = node.client()
    assert client.ask(BY_DAY).status == 200
    node.store_proxy.block()
    assert client.ask(BY_DAY).status == 500
    workers = node.running.pids()
    assert seconds_to_stop(node.running) < stop_limit_sec(GRACE_SEC)
    assert not any(alive(pid) for pid in workers)
    reported = [line["detail"] for line in node.running.logged() if line.get("what") == "save_failed"]
    assert any("daily count" in detail for detail in reported), reported
    assert any("request record" in detail for detail in reported), reported


def test_a_request_in_progress_is_answered_even_if_its_worker_is_asked_to_stop_three_times(
    multi_node: MultiNodeDeployment,
) -> None:
    node = multi_node.node()
    client = node.client()
    (worker,) = node.running.pids()
    with ThreadPoolExecutor(1) as thread:
        with psycopg.connect(multi_node.address) as session:
            session.execute("LOCK TABLE counterfoil.bills IN ACCESS EXCLUSIVE MODE")
            asked = thread.submit(client.ask, BY_DAY)
            until(lambda: multi_node.postgres.command(_WAITING), "the request waits for the lock")
            os.kill(worker, signal.SIGTERM)
            until(lambda: not is_listening("127.0.0.1", node.port), "the worker is stopping")
            for _ in range(2):
                os.kill(worker, signal.SIGTERM)
                until(lambda: not is_pending(worker, signal.SIGTERM), "the signal has arrived")
                throughout(0.2, lambda: not asked.done(), "the request waits for the lock")
        assert asked.result().status == 200
    assert seconds_to_stop(node.running) < GRACE_SEC


@pytest.mark.long
def test_a_client_that_does_not_read_delays_a_stop_only_by_the_grace_time(multi_node: MultiNodeDeployment) -> None:
    node = multi_node.node(meter=False)
    assert node.client().ask(BY_DAY).status == 200
    with unread_responses(node.port):
        for worker in node.running.pids():
            # When systemd stops a service, it signals every process.
            os.kill(worker, signal.SIGTERM)
        # The worker still stores its records and exits by itself, before it would be killed.
        assert GRACE_SEC <= seconds_to_stop(node.running) < GRACE_SEC + SLACK_SEC
    assert not [line for line in node.running.logged() if "Killing" in line.get("message", "")]
    assert multi_node.postgres.command("SELECT count(*) FROM counterfoil.requests", multi_node.database) == [(1,)]


@pytest.mark.long
def test_workers_of_a_killed_supervisor_end_although_a_client_does_not_read(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    running = deployment.start()
    workers = running.pids()
    with unread_responses(deployment.port):
        running.process.kill()
        running.process.wait()
        limit_sec = 2 + GRACE_SEC + STOP_SAVE_SEC + SLACK_SEC
        until(lambda: not any(alive(pid) for pid in workers), "the workers have ended", limit_sec)


@pytest.mark.long
def test_a_service_whose_log_is_not_read_stops_in_time(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    deployment.load(SHOP, *bills(SHOP, 1))
    with full_pipe() as unread:
        process = subprocess.Popen(COMMAND, env=deployment.environment(), stdout=subprocess.DEVNULL, stderr=unread)
        try:
            until(
                lambda: all(is_listening("127.0.0.1", port) for port in (deployment.port, deployment.admin_port)),
                "the service listens",
            )
            process.send_signal(signal.SIGTERM)
            process.wait(stop_limit_sec(GRACE_SEC) + SLACK_SEC)
        finally:
            process.kill()
            process.wait()


@contextmanager
def unread_responses(port: int) -> Iterator[None]:
    """Send many requests on one connection without reading the responses."""
    with socket.create_connection(("127.0.0.1", port)) as caller:
        caller.settimeout(2)
        with suppress(TimeoutError):
            caller.sendall(UNREAD_RESPONSES * b"GET /ext/v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: not is_growing(caller), "the server waits for its client")
        yield


def is_growing(caller: socket.socket) -> bool:
    """Return whether more bytes arrive on this connection within half a second."""
    before = fcntl.ioctl(caller, 0x541B, b"\0" * 4)
    with suppress(AssertionError):
        until(lambda: fcntl.ioctl(caller, 0x541B, b"\0" * 4) != before, "more bytes have arrived", 0.5)
        return True
    return False


@contextmanager
def full_pipe() -> Iterator[int]:
    """Yield the write end of a full pipe that nobody reads, so that writing to it blocks."""
    reading, writing = os.pipe()
    # Open the pipe again to fill it, because the write end that the service gets must stay blocking.
    filling = os.open(f"/proc/self/fd/{writing}", os.O_WRONLY | os.O_NONBLOCK)
    try:
        with suppress(BlockingIOError):
            while True:
                os.write(filling, b"\n" * 4096)
        yield writing
    finally:
        for descriptor in (reading, writing, filling):
            os.close(descriptor)


# --- storing what is pending -----------------------------------------------------------


def test_a_write_ends_in_time_if_the_server_falls_silent_during_its_transaction() -> None:
    postgres = servers.postgres(18)
    failures: list[StoreUnavailable] = []
    _, url = postgres.fresh_database()
    with (
        closing(Proxy(postgres.port)) as proxy,
        closing(Servers(url.replace(str(postgres.port), str(proxy.port)), SystemClock())) as stored,
    ):

        async def write(connection: Any) -> None:
            proxy.block()
            await connection.execute("SELECT 1")

        def write_now() -> None:
            try:
                stored.write_now(write, 2.0)
            except StoreUnavailable as failure:
                failures.append(failure)

        writing = threading.Thread(target=write_now, daemon=True)
        writing.start()
        writing.join(2.0 + SLACK_SEC)
        assert failures


def test_records_whose_write_hangs_are_stored_over_a_new_connection() -> None:
    postgres = servers.postgres(18)
    database, url = postgres.fresh_database()
    with asyncio.Runner() as runner:
        usage = PostgresUsage(Servers(url, SystemClock()))
        assert runner.run(flush(usage, "first", wait_sec=10))
        ((backend,),) = postgres.command(_BACKENDS.format(database))
        postgres.freeze(backend, signal.SIGSTOP)
        try:
            assert not runner.run(flush(usage, "second", wait_sec=0.5))
            usage.close()
            assert request_ids(url) == ["first", "second"]
        finally:
            # End the backend before it continues. Otherwise it would run the statement that it has already received.
            postgres.command(f"SELECT pg_terminate_backend({backend})")
            postgres.freeze(backend, signal.SIGCONT)
        until(lambda: not postgres.command(_BACKENDS.format(database)), "the connection has ended")
    assert request_ids(url) == ["first", "second"]


async def flush(usage: PostgresUsage, request_id: str, wait_sec: float) -> bool:
    """Write the record of a request; return whether it was written within `wait_sec`."""
    at = SystemClock().now_ms()
    usage.note(
        RequestRecord(at=at, key_id="k", route="/v1/shops", status=200, error=None, took_us=5, request_id=request_id)
    )
    done, _ = await asyncio.wait({usage._start(usage._flush_later())}, timeout=wait_sec)
    return bool(done)


def request_ids(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [name for (name,) in connection.execute("SELECT request_id FROM counterfoil.requests ORDER BY 1")]
