from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from console.running_console import Operator, RunningConsole
from records import NEW_YEAR, base, bills, branch, member


@pytest.fixture
def console(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RunningConsole]:
    """A console, with the settings that a test passes as a parameter."""
    running = RunningConsole(tmp_path, **getattr(request, "param", {}))
    yield running
    running.close()


@pytest.fixture
def shop(console: RunningConsole) -> str:
    """Load a shop; return its ID."""
    loaded = branch(name="Riverside")
    console.service.load(loaded)
    return str(loaded["id"])


@pytest.fixture
def alice(console: RunningConsole) -> Operator:
    return console.operator("alice")


@pytest.fixture
def used(console: RunningConsole) -> dict[str, Any]:
    """Load a shop with a member and three bills, and send four requests, one of which fails.

    Return the ID of the key, the shop, and the IDs of the requests.
    """
    shop = branch(name="Riverside")
    console.service.load(shop, base(shop), member(shop), *bills(shop, 3))
    key = console.service.key(shop=shop["id"], label="ERP", personal_data=True)
    asked = {
        "bills": console.service.get("transactions", key, shopId=shop["id"], **NEW_YEAR),
        "members": console.service.get("members", key, providerId=shop["providerId"]),
        "wrong": console.service.get("transactions", key, shopId="elsewhere", **NEW_YEAR),
        "changes": console.service.get("transactions", key, shopId=shop["id"], updatedSince="1970-01-01T00:00:00Z"),
    }
    # Stopping the service writes the records of its requests.
    console.service.restart()
    ids = {name: answer.headers["x-request-id"] for name, answer in asked.items()}
    return {"key_id": key.split("_")[2], "shop": shop, "ids": ids}
