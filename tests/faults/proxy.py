"""A TCP proxy on loopback that can delay, throttle, block, reset or refuse connections."""

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable

from running_service import free_port
from waiting import latency

CHUNK = 65_536
# With this option, closing a socket resets the connection instead of shutting it down cleanly.
NO_LINGER = struct.pack("ii", 1, 0)


class Proxy:
    """A proxy to a server's port. It runs in its own thread, so that a busy test does not slow it down."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.target = port
        self.port = free_port()
        self.delay_sec = 0.0
        # The number of bytes that each connection forwards in each direction every hundredth of a second, or None for
        # no limit.
        self.throttle: int | None = None
        # If true, the proxy keeps one side connected when the other side disconnects.
        self.hides_disconnect = False
        self.hidden_disconnects = 0
        self._tls = tls
        self._open: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._listener: socket.socket | None = None
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self.restore()

    # --- faults ------------------------------------------------------------------------

    def block(self) -> None:
        """Keep connections and accept new ones, but forward nothing.

        This is how a frozen server or a router that has lost its state behaves.
        """
        self._do(self._flowing.clear)

    def cut(self) -> None:
        """Reset all connections and refuse new ones."""
        self._do(self._stop_listening)
        self.reset()

    def reset(self) -> None:
        """Reset all connections, but accept new ones."""
        self._do(self._break_all)

    def restore(self) -> None:
        """Forward everything again, at full speed."""
        self.delay_sec, self.throttle, self.hides_disconnect = 0.0, None, False
        self._do(self._flowing.set)
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(5)

    def close(self) -> None:
        self.cut()
        asyncio.run_coroutine_threadsafe(self._drained(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    # --- in the proxy's thread ---------------------------------------------------------

    def _do(self, action: Callable[[], None]) -> None:
        done = threading.Event()
        self._loop.call_soon_threadsafe(action)
        self._loop.call_soon_threadsafe(done.set)
        assert done.wait(5)

    async def _listen(self) -> None:
        # asyncio's own server is not used: it does not close connections that arrive just before the server is closed.
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self.port), backlog=1024)
            self._listener.setblocking(False)
            self._loop.add_reader(self._listener, self._accept, self._listener)

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            line, _ = listener.accept()
            task = self._loop.create_task(self._pass(line))
            self._pumps.add(task)
            # This closes the connection even if the task is cancelled before it starts.
            task.add_done_callback(lambda _: line.close())
            task.add_done_callback(self._pumps.discard)

    def _stop_listening(self) -> None:
        if self._listener:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _break_all(self) -> None:
        for writer in self._open:
            line: socket.socket = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
            writer.transport.abort()

    async def _drained(self) -> None:
        for pump in self._pumps:
            pump.cancel()
        if self._pumps:
            await asyncio.wait(self._pumps)
        # Let the event loop run once more, because that is when it closes aborted connections.
        await asyncio.sleep(0)

    async def _pass(self, line: socket.socket) -> None:
        reader = asyncio.StreamReader(limit=CHUNK)
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await self._loop.connect_accepted_socket(lambda: protocol, line, ssl=self._tls)
        except OSError:
            # The TLS handshake failed, for example because the caller does not trust the certificate.
            return
        writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
        self._open.add(writer)
        try:
            await self._flowing.wait()
            there, beyond = await asyncio.open_connection("127.0.0.1", self.target, limit=CHUNK)
            self._open.add(beyond)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pump(reader, beyond))
                    both.create_task(self._pump(there, writer))
            finally:
                self._open.discard(beyond)
                beyond.transport.abort()
        except* OSError:
            """The server is unavailable, or one side has disconnected, so the other side is disconnected too."""
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            await self._flowing.wait()
            if self.delay_sec:
                await latency(self.delay_sec)
            step = self.throttle or len(data)
            for start in range(0, len(data), step):
                await self._flowing.wait()
                writer.write(data[start : start + step])
                await writer.drain()
                if self.throttle:
                    await latency(0.01)
        if not self.hides_disconnect:
            raise ConnectionResetError
        self.hidden_disconnects += 1
