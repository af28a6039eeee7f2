"""A copy knows which shops the key can still read, and up to when it has the changes to the others."""

import json
from datetime import datetime
from pathlib import Path

import pytest

import records as r
from client.pulled_copy import PLENTY, Copy
from client.targets import EVERY_KIND, TARGETS
from counterfoil.client.errors import CopyMismatch
from running_service import RunningService

FRANCHISE = "franchise-of-the-scope"


def pull(copy: Copy, *records: r.Record) -> None:
    """Load these records a minute later, and pull."""
    copy.service.clock.advance(60)
    copy.service.load(*records)
    copy.service.ledger.advance_horizon()
    copy.pull()


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_shop_that_leaves_has_the_time_up_to_which_it_was_copied(
    kind: str, service: RunningService, tmp_path: Path
) -> None:
    staying, leaving = (r.branch(franchiseId=FRANCHISE) for _ in range(2))
    elsewhere = leaving | {"franchiseId": "another-franchise"}
    copy = Copy(service, service.key(franchise=FRANCHISE, **PLENTY), TARGETS[kind](tmp_path))

    def scope(shop: r.Record) -> tuple[bool, str | None, bool]:
        rows = copy.rows("SELECT shop_id, in_scope, CAST(complete_until AS VARCHAR), removed_at IS NOT NULL FROM shops")
        [(in_scope, until, is_removed)] = [row[1:] for row in rows if row[0] == shop["id"]]
        return bool(in_scope), until, bool(is_removed)

    pull(copy, staying, leaving, r.bill(leaving))
    assert scope(leaving) == (True, None, False)
    pull(copy, elsewhere)
    in_scope, first_until, is_removed = scope(leaving)
    assert (in_scope, is_removed) == (False, True)
    assert first_until
    pull(copy, r.bill(staying))
    assert scope(leaving) == (False, first_until, True), "its time does not stand still"
    pull(copy, leaving)
    assert scope(leaving) == (True, None, False)
    pull(copy, r.removal(leaving))
    assert scope(leaving) == (True, None, True), "a closed shop is in scope"
    pull(copy, leaving)
    pull(copy, elsewhere)
    in_scope, second_until, is_removed = scope(leaving)
    assert (in_scope, is_removed) == (False, True)
    assert second_until
    assert second_until > first_until
    assert scope(staying) == (True, None, False)


def test_a_first_pull_of_shops_that_the_key_does_not_cover_fails_and_leaves_no_copy(
    service: RunningService, tmp_path: Path
) -> None:
    branch = r.branch(franchiseId=FRANCHISE)
    service.load(branch)
    copy = Copy(service, service.key(franchise=FRANCHISE, **PLENTY), TARGETS["sqlite"](tmp_path))
    with pytest.raises(CopyMismatch):
        copy.pull(shops=["mistyped"])
    with pytest.raises(CopyMismatch):
        copy.reconcile()
    copy.pull(shops=["mistyped", branch["id"]])
    assert copy.rows("SELECT shop_id FROM shops") == [(branch["id"],)]


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_members_are_marked_when_the_last_shop_of_their_base_leaves(
    kind: str, service: RunningService, tmp_path: Path
) -> None:
    staying, leaving = (r.branch(franchiseId=FRANCHISE) for _ in range(2))
    copy = Copy(service, service.key(franchise=FRANCHISE, **PLENTY), TARGETS[kind](tmp_path))

    def current_bases() -> list[tuple[str]]:
        return copy.rows("SELECT provider_id FROM members WHERE removed_at IS NULL ORDER BY provider_id")

    bases = sorted((shop["providerId"],) for shop in (staying, leaving))
    pull(copy, staying, leaving, r.member(staying), r.member(leaving))
    assert current_bases() == bases
    service.load(leaving | {"franchiseId": "another-franchise"})
    service.ledger.advance_horizon()
    tally = copy.pull(members_every_sec=86_400.0)
    assert (tally.members_removed, tally.shops_that_left) == (1, [leaving["id"]])
    assert current_bases() == [(staying["providerId"],)]
    assert not copy.pull(members_every_sec=86_400.0).changes
    service.clock.advance(60)
    service.load(leaving)
    service.ledger.advance_horizon()
    copy.pull(members_every_sec=86_400.0)
    assert current_bases() == bases


def test_a_shop_that_left_before_everything_was_read_again_has_the_time_of_the_last_complete_pull(
    service: RunningService, tmp_path: Path
) -> None:
    staying, leaving = (r.branch(franchiseId=FRANCHISE) for _ in range(2))
    copy = Copy(service, service.key(franchise=FRANCHISE, **PLENTY), TARGETS["duckdb"](tmp_path))
    pull(copy, staying, leaving, r.bill(leaving))
    [(before,)] = copy.rows("SELECT state FROM pull_state")
    service.clock.advance(401 * 86_400)
    service.load(leaving | {"franchiseId": "another-franchise"})
    service.ledger.advance_horizon()
    service.ledger.prune_removals()
    pull(copy)
    [(until,)] = copy.rows("SELECT CAST(complete_until AS VARCHAR) FROM shops WHERE NOT in_scope")
    assert datetime.fromisoformat(until) == datetime.fromisoformat(json.loads(before)["feed"]["as_of"])
