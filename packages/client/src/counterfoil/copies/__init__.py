"""The commands that need no server: `pull`, `reconcile` and `mcp` for copies, and `completion`."""

from typing import Final

from counterfoil.program.registry import RegisteredCommand

COMMANDS: Final = (
    RegisteredCommand(
        "pull", "Copies", "Keep a copy in DuckDB, SQLite, Parquet or PostgreSQL up to date.", "counterfoil.copies.pull"
    ),
    RegisteredCommand(
        "reconcile",
        "Copies",
        "Compare a copy with the service and optionally fix differences.",
        "counterfoil.copies.reconcile",
    ),
    RegisteredCommand("mcp", "Copies", "Let an assistant ask questions about a copy (MCP).", "counterfoil.copies.mcp"),
    RegisteredCommand("completion", "Develop", "Print the shell completion script.", "counterfoil.program.completion"),
)
