"""Tests point-in-time recovery from a backup with archived WAL, using the commands in docs/backup.md."""

import os
import shutil
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import psycopg
import pytest

from records import EVER, bill, bills, shop
from running_service import RunningService
from servers import Postgres, Server
from waiting import until

# This test starts two servers, so it runs only in `make test-long`.
pytestmark = pytest.mark.long


@pytest.fixture
def vault() -> Iterator[Path]:
    """A folder that the server's user can write to."""
    folder = Path(f"/tmp/counterfoil-vault-{os.getpid()}")  # noqa: S108 - deleted after the test
    (folder / "wal").mkdir(parents=True)
    if os.getuid() == 0:
        shutil.chown(folder, "nobody")
        shutil.chown(folder / "wal", "nobody")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


class Restored(Server):
    """A server that restores a backup to a given time."""

    def __init__(self, of: Postgres, vault: Path, moment: str) -> None:
        super().__init__("restored")
        data = self.folder / "data"
        self.run("cp", "-a", vault / "base", data)
        self.run("touch", data / "recovery.signal")
        settings = (
            f"restore_command=cp {vault}/wal/%f %p",
            f"recovery_target_time={moment}",
            "recovery_target_action=promote",
            f"unix_socket_directories={self.folder}",
        )
        options = [f"-c{setting}" for setting in settings]
        self.launch(of.bin / "postgres", "-D", data, "-p", str(self.port), "-h", "127.0.0.1", *options)
        self.await_answer(self._is_primary, psycopg.OperationalError)

    def _is_primary(self) -> None:
        with psycopg.connect(self.url("postgres")) as connection:
            if connection.execute("SELECT pg_is_in_recovery()").fetchone() != (False,):
                raise psycopg.OperationalError("still recovering")

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"


def test_a_store_is_restored_to_the_moment_before_an_accident_and_the_marks_of_clients_stay_valid(
    vault: Path, tmp_path: Path
) -> None:
    server = Postgres(
        18, "wal_level=replica", "archive_mode=on", f"archive_command=test ! -f {vault}/wal/%f && cp %p {vault}/wal/%f"
    )
    name, url = server.fresh_database()
    service = RunningService(tmp_path / "before", store=url)
    of = shop()
    service.load(of, *bills(of, 20))
    server.run(server.bin / "pg_basebackup", "-D", vault / "base", "-h", "127.0.0.1", "-p", str(server.port),
               *("-U", "postgres", "-X", "none", "-c", "fast"))  # fmt: skip
    later = bill(of)
    service.load(later)
    key = service.key(shop=of["id"], per_min=1000)
    kept = service.get("transactions", key, shopId=of["id"], updatedSince=EVER, limit=200).json()["data"]
    moment = server.command("SELECT now()")[0][0].astimezone(UTC).isoformat()
    service.clock.advance(60)
    revoked = service.key(shop=of["id"])
    mark = service.get("transactions", key, shopId=of["id"], updatedSince=EVER, limit=200).json()["serverTime"]
    server.command("DELETE FROM counterfoil.bills", name)
    server.command("SELECT pg_switch_wal()")
    server.command("CHECKPOINT")
    service.close()
    until(lambda: not list((server.data / "pg_wal" / "archive_status").glob("*.ready")), "the log is archived")
    server.remove()

    restored = Restored(server, vault, moment)
    again = RunningService(tmp_path / "after", store=restored.url(name))
    again.clock = service.clock
    assert again.get("transactions", key, shopId=of["id"], updatedSince=EVER, limit=200).json()["data"] == kept
    # A key that was issued after the recovery target time is unknown.
    assert again.error("shops", revoked) == "invalid_key"
    # A client whose mark is later than the recovery target time still gets every bill that is loaded now.
    again.clock.advance(1)
    again.load(later | {"cashier": "Lek"})
    (new,) = again.get("transactions", key, shopId=of["id"], updatedSince=mark).json()["data"]
    assert new["id"] == later["id"]
    again.close()
    restored.remove()
