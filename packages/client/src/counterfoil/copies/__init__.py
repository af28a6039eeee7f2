"""The commands for copies: `pull`, `reconcile` and `mcp`."""

from typing import Final

from counterfoil.program.registry import RegisteredCommand

COMMANDS: Final = (
    RegisteredCommand("pull", "Copies", "counterfoil.copies.pull"),
    RegisteredCommand("reconcile", "Copies", "counterfoil.copies.reconcile"),
    RegisteredCommand("mcp", "Copies", "counterfoil.copies.mcp"),
)
