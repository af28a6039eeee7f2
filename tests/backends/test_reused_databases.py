"""Databases that tests return are emptied and reused, because creating one takes ten times as long."""

from pathlib import Path

import servers
from running_service import RunningService


def test_a_returned_database_with_audit_entries_is_emptied_and_used_again(tmp_path: Path) -> None:
    server = servers.postgres(18)
    name, url = server.borrow_database()
    service = RunningService(tmp_path, store=url)
    service.key(shop="sh_1")
    service.close()
    assert server.command("SELECT count(*) > 0 FROM counterfoil.audit", name) == [(True,)]
    server.return_database(name)
    again, _ = server.borrow_database()
    try:
        assert again == name
        assert server.command("SELECT count(*) FROM counterfoil.audit", name) == [(0,)]
    finally:
        server.return_database(again)
