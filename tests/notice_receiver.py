"""Receives notifications on this machine, as the service of a messenger would."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Receiver(HTTPServer):
    """Receives notifications. `refusals` is how many of the next requests it refuses."""

    def __init__(self) -> None:
        self.received: list[tuple[str, dict[str, str], bytes]] = []
        self.refusals = 0
        super().__init__(("127.0.0.1", 0), _Handler)
        # It looks this often whether it should end.
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def server_close(self) -> None:
        self.shutdown()
        super().server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook?token=secret"

    def bodies(self) -> list[Any]:
        return [json.loads(body) for _, _, body in self.received if body]


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.server.refusals:
            self.server.refusals -= 1
            self.send_response(302)
            self.send_header("location", "/elsewhere")
        else:
            self.server.received.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(204)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass
