"""The upper limit: our HTTP server with our settings, serving bytes from memory.

    python memory.py PORT FOLDER

Every file in the folder is served under its name, and `/hello` returns a few bytes.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from counterfoil.serving.server import HttpServer

HELLO = b'{"ok":true,"data":"hello"}'
HEADERS = [("content-type", "application/json")]


class Memory:
    """An application that only looks up the response for a path."""

    def __init__(self, folder: Path) -> None:
        self._answers = {f"/{file.name}": file.read_bytes() for file in folder.iterdir()} | {"/hello": HELLO}

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        protocol.response_bytes(200, HEADERS, self._answers[scope.path])

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do nothing: there is nothing to open."""

    def __rsgi_del__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do nothing: there is nothing to close."""


if __name__ == "__main__":
    port, folder = sys.argv[1:]
    # A worker serves until the end of its standard input. This one has no supervisor, so the input never ends.
    reader, _ = os.pipe()
    os.dup2(reader, sys.stdin.fileno())
    memory: Any = Memory(Path(folder))
    HttpServer(memory, "127.0.0.1", int(port), 1, lambda: None).run()
