"""Idle connections do not keep operators out of the console."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from console.running_console import Operator, RunningConsole
from counterfoil.console.exchange import ConsoleRequest, ConsoleResponse
from counterfoil.console.server import MAX_CONNECTIONS, ConsoleServer
from waiting import until

PATIENCE_SEC = 60
REQUEST = b"GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n"


class SlowConsole:
    """A console server that holds back its responses until a test releases them."""

    def __init__(self) -> None:
        self.asked = threading.Semaphore(0)
        self.release = threading.Event()
        self.server = ConsoleServer("127.0.0.1", 0, self._answer)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def _answer(self, request: ConsoleRequest) -> ConsoleResponse:
        self.asked.release()
        assert self.release.wait(PATIENCE_SEC)
        return ConsoleResponse(body=request.path.encode())

    def connect(self, sent: bytes = b"") -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.server.port), PATIENCE_SEC)
        connection.sendall(sent)
        return connection


@pytest.fixture
def slow() -> Iterator[SlowConsole]:
    running = SlowConsole()
    yield running
    running.release.set()
    running.server.shutdown()
    running.server.server_close()


def ends(connection: socket.socket) -> bool:
    """Return whether the server has closed a connection without a response."""
    connection.settimeout(0.01)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


def test_an_operator_is_answered_while_more_connections_than_allowed_are_idle(
    console: RunningConsole, alice: Operator
) -> None:
    address = ("127.0.0.1", console.settings.console_port)
    with ExitStack() as opened:
        idle = [opened.enter_context(socket.create_connection(address, 30)) for _ in range(MAX_CONNECTIONS + 6)]
        assert alice.get("/audit").status_code == 200
        assert alice.get("/console.css").status_code == 200
        assert until(lambda: ends(idle[0]), "the oldest idle connection is closed", 5)
        assert not ends(idle[-1])


def test_a_client_that_sends_half_a_request_is_idle(slow: SlowConsole) -> None:
    slow.release.set()
    with ExitStack() as opened:
        halves = [opened.enter_context(slow.connect(REQUEST[:20])) for _ in range(MAX_CONNECTIONS + 1)]
        with slow.connect(REQUEST) as complete:
            assert complete.recv(15) == b"HTTP/1.1 200 OK"
        assert until(lambda: ends(halves[0]), "the oldest idle connection is closed", 5)


def test_a_connection_that_waits_for_an_answer_is_not_closed_for_others(slow: SlowConsole) -> None:
    with slow.connect(REQUEST) as waiting, ExitStack() as opened:
        assert slow.asked.acquire(timeout=PATIENCE_SEC)
        for _ in range(MAX_CONNECTIONS + 6):
            opened.enter_context(slow.connect())
        slow.release.set()
        assert waiting.recv(15) == b"HTTP/1.1 200 OK"


def test_a_connection_is_closed_if_all_others_wait_for_an_answer(slow: SlowConsole) -> None:
    with ExitStack() as opened:
        for _ in range(MAX_CONNECTIONS):
            opened.enter_context(slow.connect(REQUEST))
        for _ in range(MAX_CONNECTIONS):
            assert slow.asked.acquire(timeout=PATIENCE_SEC)
        with closing(slow.connect()) as surplus:
            assert until(lambda: ends(surplus), "the connection beyond the limit is closed", 5)
        slow.release.set()
    with closing(slow.connect(REQUEST)) as later:
        assert later.recv(15) == b"HTTP/1.1 200 OK"
