"""The proxy that other tests use to break connections."""

import gc
import socket
import threading
from contextlib import ExitStack

from faults.proxy import Proxy

ROUNDS = 5


def connect_until_refused(port: int, stack: ExitStack, connected: threading.Event) -> None:
    try:
        while True:
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
            connected.set()
    except OSError:
        return


def test_a_closed_proxy_leaves_no_socket_open() -> None:
    """Connections that arrive while the proxy is being closed are closed too."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as server:
        for _ in range(ROUNDS):
            proxy = Proxy(server.getsockname()[1])
            with ExitStack() as stack:
                connected = threading.Event()
                caller = threading.Thread(target=connect_until_refused, args=(proxy.port, stack, connected))
                caller.start()
                assert connected.wait(5)
                proxy.close()
                caller.join()
            del proxy
            # A socket that was left open fails the test when it is garbage-collected.
            gc.collect()
