"""docs/examples/feed_client.py keeps an exact copy of shops and bills, also undated and removed ones."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from client.forked_program import run_forked
from records import bill, bills, branch, removal
from running_service import RunningService

pytestmark = pytest.mark.programs

PROGRAM = Path(__file__).parents[2] / "docs" / "examples" / "feed_client.py"


class FeedExample:
    """The client, with its own folder."""

    def __init__(self, folder: Path, url: str, key: str) -> None:
        pytest.importorskip("requests")
        folder.mkdir()
        self.folder = folder
        self.environment = {"COUNTERFOIL_URL": f"{url}/ext/v1", "COUNTERFOIL_KEY": key}

    def run(self) -> None:
        done = run_forked(self.folder, [str(PROGRAM)], self.environment, patience_sec=120)
        assert done.returncode == 0, done.stderr

    def rows(self, statement: str) -> list[tuple[str, ...]]:
        with closing(sqlite3.connect(self.folder / "feed.sqlite3")) as connection:
            return connection.execute(statement).fetchall()

    def bills(self) -> dict[str, object]:
        return {bill_id: json.loads(body) for bill_id, body in self.rows("SELECT id, body FROM bills")}


def test_the_example_follows_additions_changes_and_removals(service: RunningService, tmp_path: Path) -> None:
    of = branch()
    key = service.key(franchise=of["franchiseId"], per_min=1000)
    sold = bills(of, 1_020)
    service.load(of, *sold)
    example = FeedExample(tmp_path / "client", service.url, key)
    service.ledger.advance_horizon()
    example.run()
    assert example.bills().keys() == {record["id"] for record in sold}
    late = bill(of, closedAt=None, history=True)
    service.load(removal(sold[0]), sold[1] | {"cashier": "Ying"}, late)
    service.ledger.advance_horizon()
    example.run()
    held = example.bills()
    assert held.keys() == {record["id"] for record in [*sold[1:], late]}
    for record in (sold[1], late):
        assert held[record["id"]] == service.data(f"transactions/{record['id']}", key)
    assert [shop for (shop,) in example.rows("SELECT id FROM shops")] == [of["id"]]


def test_the_example_starts_again_when_its_mark_is_too_old(service: RunningService, tmp_path: Path) -> None:
    of = branch()
    key = service.key(franchise=of["franchiseId"])
    kept, removed = bills(of, 2)
    service.load(of, kept, removed)
    service.ledger.advance_horizon()
    example = FeedExample(tmp_path / "client", service.url, key)
    example.run()
    service.load(removal(removed))
    service.clock.advance(401 * 86_400)
    service.ledger.advance_horizon()
    service.ledger.prune_removals()
    example.run()
    assert example.bills().keys() == {kept["id"]}
