"""The console shows and changes a store on PostgreSQL in the same way as an embedded store."""

from contextlib import closing
from pathlib import Path

import pytest

import servers
from console.running_console import PAGES, RunningConsole, revealed
from counterfoil import bootstrap
from records import NEW_YEAR, base, bills, branch, member


@pytest.mark.parametrize("console", [{"backend": "postgres"}], indirect=True)
def test_pages_and_key_forms_work_on_postgresql_with_a_login_that_has_only_the_role_of_administration(
    console: RunningConsole, tmp_path: Path
) -> None:
    shop, service = branch(name="Riverside"), console.service
    service.load(shop, base(shop), member(shop, tel="0891234567"), *bills(shop, 3), b'{"kind":"bill"}')
    bootstrap.make_roles(console.settings)
    server = servers.postgres(18)
    if not server.command("SELECT 1 FROM pg_roles WHERE rolname = 'a_console'"):
        server.command("CREATE ROLE a_console LOGIN IN ROLE counterfoil_administration")
    database = console.settings.database.rpartition("/")[2]
    with closing(RunningConsole(tmp_path / "restricted", store=server.url(database, "a_console"))) as restricted:
        alice = restricted.operator("alice")
        key = revealed(alice.issue(f"shop:{shop['id']}", personal_data="on").text)
        assert key
        service.get("members", key, providerId=shop["providerId"])
        found = service.get("transactions", key, shopId=shop["id"], **NEW_YEAR).headers["x-request-id"]
        service.restart()
        key_id = key.split("_")[2]
        for path in (*PAGES, "/loads/1", f"/keys/{key_id}"):
            alice.page(path)
        assert alice.json(f"/requests.json?request={found}")["requests"][0]["status"] == 200
        assert alice.json("/personal-data.json")["byKey"][0]["members"] == 1
        assert alice.json("/shops.json")["shops"][0]["days"][-1] == 3
        for action, entered in (("change", {"per_min": "7", "per_day": "70"}), ("rotate", {"overlap": "7d"})):
            assert alice.act(key_id, action, **entered).status_code == 200
        acts = {entry["act"] for entry in alice.json("/audit.json")["entries"]}
        assert acts == {"console_signed_in", "key_issued", "key_changed", "key_rotated", "revocation_scheduled"}
        # It may show a customer and the undo of a load, but not write books.
        looked_up = alice.send("/find/customer", alice.fill_in("/find", "/find/customer", who="089 123 4567"))
        assert "counterfoil members forget m1_" in looked_up.text
        undo = alice.page("/loads/1/undo")
        assert "may not write bills" in undo
        assert "/loads/1/undo/remove" not in undo
        # In these tests, nothing advances the horizon regularly, so the checks of the service and the horizon may fail.
        failed = {finding["check"] for finding in alice.json("/store.json")["checks"] if finding["status"] == "fail"}
        assert failed <= {"service", "horizon"}
