"""Programs from npm packages, installed by `make node-tools`. Without them, tests that need them are skipped."""

from pathlib import Path

import pytest

MODULES = Path(__file__).parents[2] / ".ci" / "node" / "node_modules"
# Disable update checks and telemetry.
OFFLINE = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true", "NO_UPDATE_NOTIFIER": "1"}

needs_node_tools = pytest.mark.skipif(
    not (MODULES / ".ready").exists(),
    reason="the npm packages are not installed, so this was NOT checked (make node-tools)",
)


def node_program(name: str) -> str:
    return str(MODULES / ".bin" / name)
