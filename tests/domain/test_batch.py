"""Tests for the rows that a ledger writes. tests/ports/test_ledger.py covers the effect of each kind of change."""

from counterfoil.domain.batch import Batch
from counterfoil.domain.changes import Outcome
from counterfoil.ingest.lines import Reader
from ports.open_store import PSEUDONYMS


def test_a_member_with_another_template_gets_the_current_one_and_stays_unchanged() -> None:
    change = Reader(PSEUDONYMS, lambda _: None).change({"kind": "member", "id": "4711", "providerId": "mb_a"})
    first = Batch(1, 0, [], [], [], [], {})
    assert first.apply([change]) == [Outcome.ADDED]
    (stored,) = first.written_members()
    template, stored.template, stored.record = stored.template, b"another", None
    second = Batch(2, 0, [], [], [], [stored], {})
    assert second.apply([change]) == [Outcome.UNCHANGED]
    assert [row.template for row in second.written_members()] == [template]
