"""An assistant: the MCP SDK's own client, which calls the tools of a server in this process or of `counterfoil mcp`.

The SDK takes more than a second to import. Every test process collects all tests,
so the SDK is imported only when a test uses it.
"""

import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from counterfoil.client.assistant.questions import Questions
from counterfoil.client.assistant.sources import CopyReader

if TYPE_CHECKING:
    from mcp import Client

Json = dict[str, Any]


class Refused(Exception):
    """The tool returned an error."""


class Assistant:
    """A connected client. Each call returns the structured content of the tool's result."""

    def __init__(self, client: "Client") -> None:
        self.client = client

    async def ask(self, tool: str, **arguments: Any) -> Json:
        return (await self.ask_with_text(tool, **arguments))[0]

    async def ask_with_text(self, tool: str, **arguments: Any) -> tuple[Json, str]:
        """Return the result also as the text that a client without structured content reads."""
        from mcp_types import TextContent  # noqa: PLC0415

        result = await self.client.call_tool(tool, arguments)
        text = "".join(block.text for block in result.content if isinstance(block, TextContent))
        if result.is_error:
            raise Refused(text)
        assert isinstance(result.structured_content, dict)
        return result.structured_content, text


@contextmanager
def questions(copy: Path) -> Iterator[Questions]:
    """Yield a `Questions` object for this copy, for tests that do not need the MCP protocol."""
    with closing(CopyReader(copy)) as reader:
        yield Questions(reader)


Talk = Callable[[Assistant], Coroutine[Any, Any, None]]


def with_assistant(copy: Path, talk: Talk) -> None:
    """Start `counterfoil mcp` on this copy, pass a connected client to `talk`, and stop the server."""
    from mcp.client.stdio import StdioServerParameters  # noqa: PLC0415

    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "counterfoil", "mcp", "--copy", str(copy)],
        env={"PYTHONPATH": os.environ.get("PYTHONPATH", ""), "PATH": os.environ["PATH"]},
    )

    _converse(parameters, talk)


def with_tools(copy: Path, talk: Talk) -> None:
    """Pass `talk` a client of a server in this process, which takes less time than a process of its own."""
    from counterfoil.client.assistant.server import make_server  # noqa: PLC0415

    with questions(copy) as ask:
        _converse(make_server(ask), talk)


def _converse(server: Any, talk: Talk) -> None:
    from mcp import Client  # noqa: PLC0415

    async def conversation() -> None:
        async with Client(server) as client:
            await talk(Assistant(client))

    anyio.run(conversation)
