"""Writing the flat rows of the change feed to tables that support only upserts by key yields an exact copy."""

import json
from decimal import Decimal
from typing import Any

import pytest

import records as r
from counterfoil.client import Client
from counterfoil.client.connection import Call, Connection, HttpResponse, Outcome
from counterfoil.client.errors import CopyMismatch, Refusal
from counterfoil.client.feed_rows import FeedRows, Row, all_shop_rows, member_rows
from running_service import RunningService

PLENTY = 100_000


class Tables:
    """Tables that support only upserts by primary key, and the state of the last pass."""

    def __init__(self, service: RunningService, branch: r.Record) -> None:
        self.service = service
        self.branch = branch
        self.key = franchise_key(service, branch)
        self.options: dict[str, Any] = {}
        self.shops: dict[str, Row] = {}
        self.bills: dict[tuple[str, str], Row] = {}
        self.state: dict[str, Any] = {}

    def load(self, *records: r.Record) -> None:
        self.service.clock.advance(1)
        self.service.load(*records)
        self.service.ledger.advance_horizon()

    def client(self) -> Client:
        return Client(f"{self.service.url}/ext/v1", self.key, per_min=PLENTY, **self.options)

    def make_a_pass(self, *changes: r.Record) -> None:
        """Load these changes, if any, and copy what has changed."""
        if changes:
            self.load(*changes)
        # Convert the state to JSON and back, as the connectors' tools do.
        with self.client() as client:
            feed = FeedRows(client, json.loads(json.dumps(self.state)), limit=3)
            for table, row in feed.rows():
                if table == "shops":
                    self.shops[row["shop_id"]] = row
                else:
                    self.bills[row["shop_id"], row["id"]] = row
        self.state = feed.state

    def current_bills(self) -> set[str]:
        """Return the IDs of the bills that exist, by the rule that the connectors' views use."""
        shops = {shop_id: row["complete_since"] for shop_id, row in self.shops.items()}
        return {
            bill_id
            for (shop_id, bill_id), row in self.bills.items()
            if shop_id in shops and not row["removed"] and row["copied_at"] >= shops[shop_id]
        }

    def scope(self, shop: r.Record) -> tuple[bool, str | None]:
        row = self.shops[shop["id"]]
        return row["in_scope"], row["complete_until"]


@pytest.fixture
def tables(service: RunningService) -> Tables:
    branch = r.branch()
    tables = Tables(service, branch)
    tables.load(branch)
    return tables


def franchise_key(service: RunningService, of: r.Record) -> str:
    return service.key(franchise=of["franchiseId"], per_min=PLENTY)


def ids(*records: r.Record) -> set[str]:
    return {record["id"] for record in records}


def test_additions_and_removals_are_copied(tables: Tables) -> None:
    sold = r.bills(tables.branch, 7)
    tables.make_a_pass(*sold)
    assert tables.current_bills() == ids(*sold)
    late = r.bill(tables.branch, closedAt=None, history=True)
    tables.make_a_pass(r.removal(sold[0]), late)
    assert tables.current_bills() == ids(*sold[1:], late)


def test_the_bills_of_a_shop_that_left_count_and_those_removed_meanwhile_are_gone_when_it_returns(
    tables: Tables,
) -> None:
    leaving = r.branch(franchiseId=tables.branch["franchiseId"])
    kept, removed = r.bills(leaving, 2)
    tables.make_a_pass(leaving, kept, removed)
    complete_until = tables.state["as_of"]
    tables.make_a_pass(leaving | {"franchiseId": "another"})
    tables.make_a_pass(r.removal(removed))
    assert tables.current_bills() == ids(kept, removed)
    assert tables.scope(leaving) == (False, complete_until)
    tables.make_a_pass(leaving)
    assert tables.current_bills() == ids(kept)
    assert tables.scope(leaving) == (True, None)


def test_a_key_that_the_copy_was_not_made_with_is_refused_unless_it_is_adopted(tables: Tables) -> None:
    leaving = r.branch(franchiseId=tables.branch["franchiseId"])
    sold, sold_before = r.bill(tables.branch), r.bill(leaving)
    tables.make_a_pass(leaving, sold_before, sold)
    complete_until = tables.state["as_of"]
    tables.load(leaving | {"franchiseId": "another"})
    tables.key = franchise_key(tables.service, tables.branch)
    for state in (tables.state, tables.state | {"full": True}):
        tables.state = state
        with pytest.raises(CopyMismatch):
            tables.make_a_pass()
    tables.state |= {"adopt": True}
    tables.make_a_pass()
    assert tables.current_bills() == ids(sold, sold_before)
    assert tables.shops[leaving["id"]]["removed"]
    assert tables.scope(leaving) == (False, complete_until)
    tables.make_a_pass()


def test_a_copy_without_a_mark_is_not_continued_with_a_key_that_lists_none_of_its_shops(tables: Tables) -> None:
    tables.make_a_pass(r.bill(tables.branch))
    tables.state["mark"] = None
    other = r.branch(franchiseId="another-company")
    tables.load(other)
    own, tables.key = tables.key, franchise_key(tables.service, other)
    with pytest.raises(CopyMismatch):
        tables.make_a_pass()
    tables.key = own
    tables.make_a_pass()
    assert set(tables.shops) == {tables.branch["id"]}


def test_a_copy_that_has_lost_rows_is_read_again_in_full_and_keeps_the_bills_of_shops_that_left(tables: Tables) -> None:
    leaving = r.branch(franchiseId=tables.branch["franchiseId"])
    sold, sold_before = r.bill(tables.branch), r.bill(leaving)
    tables.make_a_pass(leaving, sold_before, sold)
    tables.make_a_pass(leaving | {"franchiseId": "another"})
    del tables.bills[tables.branch["id"], sold["id"]]
    tables.state |= {"full": True}
    tables.make_a_pass()
    assert tables.current_bills() == ids(sold, sold_before)
    assert "full" not in tables.state


def test_a_pass_whose_cursor_is_refused_is_started_again(tables: Tables) -> None:
    sold = r.bills(tables.branch, 7)
    tables.load(*sold)
    refused: list[Call] = []

    class RefusesOneCursor(Connection):
        def get(self, call: Call) -> Outcome:
            if "cursor" in dict(call.query) and not refused:
                refused.append(call)
                return HttpResponse(400, {}, b'{"ok": false, "error": "bad_cursor", "message": "Start again."}')
            return super().get(call)

    tables.options = {"connect": RefusesOneCursor}
    tables.make_a_pass()
    assert refused
    assert tables.current_bills() == ids(*sold)


def test_other_refusals_are_raised_and_leave_the_state_as_it_was(tables: Tables) -> None:
    tables.make_a_pass()
    state = tables.state
    tables.key = "cf_live_unknown"
    with pytest.raises(Refusal, match="invalid_key"):
        tables.make_a_pass()
    assert tables.state is state


def test_values_keep_their_digits_and_instants_are_in_utc(tables: Tables) -> None:
    tables.make_a_pass(r.bill(tables.branch, amounts={"subtotal": 0.1, "net": 1234567.89}, lines=[r.line(qty=0.333)]))
    [row] = tables.bills.values()
    assert row["net"] == Decimal("1234567.89")
    assert row["timestamp"] == "2026-01-01T05:00:00.000Z"
    assert '"qty":0.333' in row["items"]


def test_all_shops_and_members_are_listed_even_without_a_pass(tables: Tables) -> None:
    tables.load(r.base(tables.branch), r.member(tables.branch))
    with tables.client() as client:
        [shop] = all_shop_rows(client, None)
        [member] = member_rows(client, client.shop_page())
    assert (shop["shop_id"], shop["complete_since"], shop["removed"]) == (tables.branch["id"], None, False)
    assert (member["provider_id"], member["tel"]) == (tables.branch["providerId"], None)
