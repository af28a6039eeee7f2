"""Tests for the rows that a ledger writes. tests/ports/test_ledger.py covers the effect of each kind of change."""

from counterfoil.domain.batch import Batch
from counterfoil.domain.changes import Outcome, put_member
from counterfoil.domain.members import member_from


def test_a_member_with_another_template_gets_the_current_one_and_stays_unchanged() -> None:
    change = put_member(member_from({"id": "4711", "providerId": "mb_a"}, str.upper, str.lower), None)
    first = Batch(1, 0, [], [], [], [], {})
    assert first.apply([change]) == [Outcome.ADDED]
    (stored,) = first.written_members()
    template, stored.template, stored.record = stored.template, b"another", None
    second = Batch(2, 0, [], [], [], [stored], {})
    assert second.apply([change]) == [Outcome.UNCHANGED]
    assert [row.template for row in second.written_members()] == [template]
