"""An assistant: the MCP SDK's own client, which starts `counterfoil mcp` as a process and calls its tools.

The SDK takes more than a second to import. Every test process collects all tests,
so the SDK is imported only when a test uses it.
"""

import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

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
        from mcp_types import TextContent  # noqa: PLC0415

        result = await self.client.call_tool(tool, arguments)
        text = "".join(block.text for block in result.content if isinstance(block, TextContent))
        if result.is_error:
            raise Refused(text)
        assert isinstance(result.structured_content, dict)
        return result.structured_content


def with_assistant(copy: Path, talk: Callable[[Assistant], Coroutine[Any, Any, None]]) -> None:
    """Start the server on this copy, pass a connected client to `talk`, and stop the server."""
    from mcp import Client  # noqa: PLC0415
    from mcp.client.stdio import StdioServerParameters  # noqa: PLC0415

    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "counterfoil", "mcp", "--copy", str(copy)],
        env={"PYTHONPATH": os.environ.get("PYTHONPATH", ""), "PATH": os.environ["PATH"]},
    )

    async def conversation() -> None:
        async with Client(parameters) as client:
            await talk(Assistant(client))

    anyio.run(conversation)
