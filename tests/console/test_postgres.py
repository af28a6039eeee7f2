"""The console shows and changes a store on PostgreSQL in the same way as an embedded store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from console.running_console import RunningConsole, revealed
from records import NEW_YEAR, base, bills, branch, member
from running_service import backend_settings

PAGES = ("/", "/keys", "/keys/new", "/requests", "/shops", "/loads", "/loads/1", "/personal-data", "/store", "/audit")


@pytest.fixture
def console(tmp_path: Path) -> Iterator[RunningConsole]:
    with backend_settings("postgres") as settings:
        running = RunningConsole(tmp_path, **settings)
        yield running
        running.close()


def test_pages_and_key_forms_work_on_postgresql(console: RunningConsole) -> None:
    shop = branch(name="Riverside")
    console.service.load(shop, base(shop), member(shop), *bills(shop, 3), b'{"kind":"bill"}')
    alice = console.operator("alice")
    key = revealed(alice.issue(f"shop:{shop['id']}", personal_data="on").text)
    assert key
    console.service.get("members", key, providerId=shop["providerId"])
    found = console.service.get("transactions", key, shopId=shop["id"], **NEW_YEAR).headers["x-request-id"]
    console.service.restart()
    for path in (*PAGES, f"/keys/{key.split('_')[2]}"):
        alice.page(path)
    assert alice.json(f"/requests.json?request={found}")["requests"][0]["status"] == 200
    assert alice.json("/personal-data.json")["byKey"][0]["members"] == 1
    assert alice.json("/shops.json")["shops"][0]["days"][-1] == 3
    assert [entry["act"] for entry in alice.json("/audit.json")["entries"]] == ["key_issued", "console_signed_in"]
