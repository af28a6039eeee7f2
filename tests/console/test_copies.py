"""The pages about keys show how fresh each copy is, and never call a copy up to date if it lacks changes."""

import re
from datetime import datetime
from typing import Any

import pytest

from console.running_console import Operator, RunningConsole
from counterfoil.checks.overview import overview
from counterfoil.domain.access import Key, Scope
from counterfoil.domain.request_records import CHANGE_FEED, CHANGES_OF_SHOP, CopyState
from counterfoil.model.calendar import DAY_MS, iso_utc, to_ms
from counterfoil.views.copies import copy_rows
from records import Record, base, bills, branch, member

HOUR = 3_600


def key_id_of(key: str) -> str:
    return key.split("_")[2]


class Integrator:
    """Reads the changes of a shop with a key, as an integrator does."""

    def __init__(self, console: RunningConsole, of: Record, **terms: Any) -> None:
        self._service = console.service
        self._shop = of
        self.key = self._service.key(shop=of["id"], **terms)

    def read(self, since: int) -> int:
        """Read all changes since an instant; return the serverTime."""
        self._service.ledger.advance_horizon()
        answer = self._service.get("transactions", self.key, shopId=self._shop["id"], updatedSince=iso_utc(since))
        # Stopping the service writes the progress of its readers.
        self._service.restart()
        return to_ms(datetime.fromisoformat(answer.json()["serverTime"]))


@pytest.fixture
def of(console: RunningConsole) -> Record:
    found = branch(name="Riverside")
    console.service.load(found)
    return found


@pytest.fixture
def erp(console: RunningConsole, of: Record) -> Integrator:
    return Integrator(console, of, label="ERP")


def copy_of(operator: Operator, reader: Integrator) -> dict[str, Any]:
    (copy,) = operator.json(f"/keys/{key_id_of(reader.key)}.json")["copies"]
    return dict(copy)


def test_a_poll_that_skips_changes_leaves_a_gap_which_is_explained_with_the_request_that_closes_it(
    console: RunningConsole, erp: Integrator
) -> None:
    mark = erp.read(0)
    console.clock.advance(5 * 24 * HOUR)
    start = console.clock.now_ms() - HOUR * 1000
    erp.read(start)
    bob = console.operator("bob", "th")
    copy = copy_of(bob, erp)
    assert copy["state"] == "gap"
    times = [to_ms(datetime.fromisoformat(copy[name])) for name in ("completeUntil", "gapFrom", "gapUntil")]
    assert times == [mark, mark, start]
    page = bob.page(f"/keys/{key_id_of(erp.key)}?tab=copy")
    assert "หากเริ่มทำสำเนาใหม่ในช่วงนั้น ถือว่าปกติ" in page
    assert f"updatedSince={iso_utc(mark)}" in page


def test_a_gap_is_no_longer_reported_after_400_days(console: RunningConsole, erp: Integrator) -> None:
    erp.read(0)
    console.clock.advance(5 * 24 * HOUR)
    mark = erp.read(console.clock.now_ms())
    for days in (399, 2):
        assert copy_of(console.operator(), erp)["state"] == "gap"
        console.clock.advance(days * 24 * HOUR)
        mark = erp.read(mark)
    assert copy_of(console.operator(), erp)["state"] == "fresh"


def test_a_copy_whose_first_pass_begins_at_a_mark_shows_from_when_on_changes_were_read(
    console: RunningConsole, erp: Integrator
) -> None:
    console.clock.advance(24 * HOUR)
    start = console.clock.now_ms() - HOUR * 1000
    erp.read(start)
    alice = console.operator()
    copy = copy_of(alice, erp)
    assert (copy["state"], to_ms(datetime.fromisoformat(copy["readFrom"]))) == ("fresh", start)
    page = alice.page(f"/keys/{key_id_of(erp.key)}?tab=copy")
    assert ">up to date for changes since 2026-01-02 06:00 +07</span>" in page
    assert "Changes before 2026-01-02 06:00 +07 were not read from the list of changes." in page
    assert "provided that it was complete when the first pass began" in page
    assert ">up to date for changes since 2026-01-02</span>" in alice.page("/keys")


def test_a_copy_within_the_tolerance_is_not_also_called_behind(console: RunningConsole, erp: Integrator) -> None:
    erp.read(0)
    console.clock.advance(24 * HOUR)
    page = console.operator().page(f"/keys/{key_id_of(erp.key)}?tab=copy").lower()
    assert ">up to date</span>" in page
    assert "behind" not in page
    console.clock.advance(3 * HOUR)
    page = console.operator().page(f"/keys/{key_id_of(erp.key)}?tab=copy")
    # Loading put the horizon slightly ahead of the clock, so the copy is a little less than 27 hours behind.
    assert set(re.findall("behind by [^<]*", page)) == {"behind by 26 hours"}


def test_a_pass_in_progress_does_not_hide_the_pass_before_it(console: RunningConsole, of: Record) -> None:
    erp = Integrator(console, of)
    erp.read(0)
    console.service.load(*bills(of, 3))
    console.clock.advance(HOUR)
    console.service.ledger.advance_horizon()
    query = {"shopId": of["id"], "updatedSince": "1970-01-01T00:00:00Z", "limit": 1}
    assert console.service.get("transactions", erp.key, **query).json()["nextCursor"]
    console.service.restart()
    assert copy_of(console.operator(), erp)["state"] == "fresh"
    console.clock.advance(27 * HOUR)
    assert copy_of(console.operator(), erp)["state"] == "reading"


def test_the_list_of_keys_shows_which_copy_is_not_up_to_date(
    console: RunningConsole, of: Record, erp: Integrator
) -> None:
    late = Integrator(console, of, label="BI")
    console.service.load(base(of), member(of))
    bot = console.service.key(shop=of["id"], label="Bot", messaging_lookup=True)
    console.service.get("shops", bot)
    late.read(0)
    console.clock.advance(3 * 24 * HOUR)
    erp.read(0)
    alice = console.operator()
    view = alice.json("/keys.json")
    states = {row["key"]["label"]: row["copy"]["state"] for row in view["keys"]}
    assert states == {"ERP": "fresh", "BI": "behind", "Bot": None}
    assert view["counts"]["copy_behind"] == 1
    assert overview(console.service.settings, console.clock.now_ms()).store.copies_behind == 1
    (behind,) = alice.json("/keys.json?show=copy_behind")["keys"]
    assert behind["key"]["label"] == "BI"
    page = alice.page("/keys")
    assert 'title="This key keeps no copy.">–</span>' in page
    assert '<span class="badge quiet">messaging lookup</span>' in page
    assert '<span class="badge warn">behind</span>' in page
    assert {row["label"]: row["copy"] for row in alice.csv("/keys.csv")} == {"ERP": "fresh", "BI": "behind", "Bot": ""}


def test_a_shop_that_a_key_can_no_longer_read_is_not_reported_as_behind(console: RunningConsole) -> None:
    first, second = branch(name="Riverside"), branch(name="Hillside")
    second = {**second, "franchiseId": first["franchiseId"]}
    console.service.load(first, second)
    key = console.service.key(franchise=first["franchiseId"])
    console.service.ledger.advance_horizon()
    for of in (first, second):
        console.service.get("transactions", key, shopId=of["id"], updatedSince="1970-01-01T00:00:00Z")
    console.service.restart()
    console.service.load({**second, "franchiseId": "elsewhere"})
    console.clock.advance(2 * DAY_MS // 1000)
    (copy,) = console.operator().json(f"/keys/{key_id_of(key)}.json")["copies"]
    assert copy["shopId"] == first["id"]


class Group:
    """Reads the changes of a franchise with the shops A and B, in single lists or as a feed."""

    def __init__(self, console: RunningConsole) -> None:
        self._console = console
        first = branch(name="A")
        self.shops = {"A": first, "B": {**branch(name="B"), "franchiseId": first["franchiseId"]}}
        console.service.load(*self.shops.values(), *bills(first, 3))
        self.key = console.service.key(franchise=first["franchiseId"])

    def read(self, route: str, **query: Any) -> None:
        self._console.service.ledger.advance_horizon()
        assert self._console.service.get(route, self.key, **query).status_code == 200
        self._console.service.restart()

    def read_shops(self, *names: str) -> None:
        for name in names:
            self.read("transactions", shopId=self.shops[name]["id"], updatedSince="1970-01-01T00:00:00Z")

    def lists(self) -> list[tuple[str | None, str, bool]]:
        rows = self._console.operator().json(f"/keys/{key_id_of(self.key)}.json")["copies"]
        return [(row["shopName"], row["state"], row["noLongerRead"]) for row in rows]

    def summary(self) -> tuple[str, int, int, str]:
        (row,) = self._console.operator().json("/keys.json")["keys"]
        return tuple(row["copy"][name] for name in ("state", "fresh", "lists", "unit"))


def test_a_feed_that_is_up_to_date_replaces_the_lists_that_were_read_before(console: RunningConsole) -> None:
    group = Group(console)
    group.read_shops("A")
    assert group.lists() == [("A", "fresh", False), ("B", "never", False)]
    assert group.summary() == ("never", 1, 2, "shops")
    console.clock.advance(27 * HOUR)
    group.read("changes")
    assert group.lists() == [(None, "fresh", False), ("A", "behind", True)]
    assert group.summary() == ("fresh", 1, 1, "lists")
    page = console.operator().page(f"/keys/{key_id_of(group.key)}?tab=copy")
    assert "<details><summary>No longer read: 1</summary>" in page


@pytest.mark.parametrize(("feed_begins", "is_replaced"), [(0, True), (20, True), (21, False)])
def test_a_feed_replaces_only_a_list_that_ended_after_the_feed_began(feed_begins: int, is_replaced: bool) -> None:
    now = 100 * DAY_MS
    found = [
        CopyState(list_name=CHANGES_OF_SHOP, shop_id="A", server_time=20, finished=True, at=20),
        CopyState(list_name=CHANGE_FEED, shop_id=None, server_time=now, finished=True, at=now, read_from=feed_begins),
    ]
    feed, of_shop = copy_rows(Key(key_id="k", scope=Scope("franchise", "f")), found, None, now)
    assert (feed.no_longer_read, of_shop.no_longer_read) == (False, is_replaced)


def test_a_shop_is_never_read_until_the_first_pass_over_the_feed_has_ended(console: RunningConsole) -> None:
    group = Group(console)
    group.read("changes", limit=1)
    assert group.lists() == [(None, "reading", False), ("A", "never", False), ("B", "never", False)]


def test_lists_of_all_shops_replace_a_feed_that_is_no_longer_read(console: RunningConsole) -> None:
    group = Group(console)
    group.read("changes")
    console.clock.advance(27 * HOUR)
    group.read_shops("A")
    assert group.lists() == [(None, "behind", False), ("A", "fresh", False)]
    group.read_shops("B")
    assert group.lists() == [(None, "behind", True), ("A", "fresh", False), ("B", "fresh", False)]
    assert group.summary() == ("fresh", 2, 2, "shops")
