"""A held delivery shows what accepting it changes, and a load shows what its undo takes back, before it is done."""

from typing import Any

import pytest

from console.running_console import Operator, RunningConsole
from counterfoil.console.addresses import shop_address
from counterfoil.domain.deliveries import ChangedDay, DeliveryPreview, PreviewedBill
from counterfoil.domain.doubts import DeliveryDoubt
from counterfoil.domain.open_items import OpenItem
from records import NEW_YEAR, bills, branch, shop

BOTH = pytest.mark.parametrize(
    "console", [{"backend": "sqlite"}, {"backend": "postgres"}], indirect=True, ids=["sqlite", "postgres"]
)
HELD = OpenItem(
    identity="1-bills.ndjson",
    kind="held",
    files={"bills.ndjson": 0},
    path="/held/1-bills.ndjson",
    reason="10.0% of bills have no items.",
)


def hold(console: RunningConsole, shop_id: str, bill_id: str) -> str:
    """Hold a delivery that adds two bills on New Year's Day and changes one. Return the address of its page."""
    changed = PreviewedBill(
        shop_id=shop_id,
        bill_id=bill_id,
        change="changed",
        closed_at=console.clock.now_ms(),
        status="completed",
        lines=0,
        net="20.00",
        stored_day="2026-01-01",
        stored_status="completed",
        stored_lines=1,
        stored_net="120.00",
    )
    day = ChangedDay(shop_id=shop_id, day="2026-01-01", added=2, changed=1, net="140.00")
    preview = DeliveryPreview(
        made_at=console.clock.now_ms(),
        bills=3,
        added=2,
        changed=1,
        shops=[shop_id],
        days=[day],
        more_days=0,
        examples=[changed],
        doubts=[DeliveryDoubt("no_amounts", 3, 4, 0.01)],
    )
    console.service.ledger.add_items([HELD])
    console.service.ledger.put_previews({HELD.identity: preview})
    (item,) = console.operator().json("/loads.json")["openItems"]
    return f"/loads/items/{item['number']}"


@BOTH
def test_a_held_delivery_shows_what_it_changes_and_which_keys_will_read_it(console: RunningConsole) -> None:
    here = branch(name="Riverside")
    loaded = bills(here, 3)
    console.service.load(here, *loaded)
    key_id = console.service.key(shop=here["id"], label="ERP").split("_")[2]
    console.service.key(franchise="another", label="Another")
    alice = console.operator()
    address = hold(console, here["id"], loaded[0]["id"])
    found = alice.json(f"{address}.json")
    (day,) = found["days"]
    assert (day["day"], day["added"], day["changed"]) == ("2026-01-01", 2, 1)
    assert (day["netNow"], day["netAfter"]) == ("360", "500.00")
    assert found["keys"] == [key_id]
    page = alice.page(address)
    assert "What accepting it changes" in page
    assert f'href="{shop_address(here["id"])}"' in page
    assert "500.00" in page
    assert "75.0% of bills have no amounts" in page
    assert "75.0% ของบิลไม่มียอดเงิน" in console.operator(language="th").page(address)
    assert page.index("Some of its bills") < page.index(f'action="{address}/accept"')
    shown = alice.page(shop_address(here["id"]))
    assert f'href="{address}"' in shown, "the page of the shop leads to the delivery"


def test_a_held_delivery_without_a_preview_says_so(console: RunningConsole) -> None:
    console.service.load(shop())
    console.service.ledger.add_items([HELD])
    alice = console.operator()
    (item,) = alice.json("/loads.json")["openItems"]
    page = alice.page(f"/loads/items/{item['number']}")
    assert "counterfoil load --check FILE" in page
    assert "What accepting it changes" not in page


# --- the undo of a load ------------------------------------------------------------------------


def undo(alice: Operator, load: int, how: str, **fields: str) -> Any:
    action = f"/loads/{load}/undo/{how}"
    return alice.send(action, alice.fill_in(f"/loads/{load}/undo", action, **fields))


@BOTH
def test_the_undo_of_a_load_shows_what_it_takes_back_and_then_removes_it(console: RunningConsole) -> None:
    here = branch(name="Riverside")
    console.service.load(here)
    console.service.load(*bills(here, 3))
    alice = console.operator()
    assert 'href="/loads/2/undo"' in alice.page("/loads/2")
    found = alice.json("/loads/2/undo.json")
    assert (found["takenBack"], [day["bills"] for day in found["days"]]) == (3, [3])
    assert "360.00" in alice.page("/loads/2/undo")
    answer = undo(alice, 2, "remove")
    assert answer.status_code == 200
    assert "were taken back" in answer.text
    assert alice.json("/loads/2/undo.json")["takenBack"] == 0
    assert alice.json(f"{shop_address(here['id'])}/days/2026-01-01.json")["bills"] == []
    entry = alice.json("/audit.json")["entries"][0]
    assert (entry["act"], entry["actor"], entry["via"]) == ("load_undone", "alice", "console")


def test_bills_that_a_key_read_from_lists_can_only_be_made_void(console: RunningConsole) -> None:
    here = branch(name="Riverside")
    console.service.load(here)
    console.service.load(*bills(here, 2))
    key = console.service.key(shop=here["id"], label="Lists only")
    console.service.get("transactions", key, shopId=here["id"], **NEW_YEAR)
    console.service.restart()
    alice = console.operator()
    page = alice.page("/loads/2/undo")
    assert "Lists only" in page
    assert "/loads/2/undo/remove" not in page
    token = alice.hidden(page, "/loads/2/undo/void")
    assert alice.send("/loads/2/undo/remove", token).status_code == 422
    assert alice.send("/loads/2/undo/void", token).status_code == 422, "a reason is needed"
    assert undo(alice, 2, "void", reason="Wrong month").status_code == 200
    listed = alice.json(f"{shop_address(here['id'])}/days/2026-01-01.json")["bills"]
    assert [bill["status"] for bill in listed] == ["void", "void"]


def test_a_form_that_undoes_a_load_works_once(console: RunningConsole) -> None:
    here = branch(name="Riverside")
    console.service.load(here)
    console.service.load(*bills(here, 2))
    alice = console.operator()
    entered = alice.fill_in("/loads/2/undo", "/loads/2/undo/void", reason="Wrong month")
    assert alice.send("/loads/2/undo/void", entered).status_code == 200
    console.service.load(*bills(here, 2))
    assert alice.send("/loads/2/undo/void", entered).status_code in (409, 422)


def test_of_two_loads_of_the_same_bills_the_later_one_is_undone_first(console: RunningConsole) -> None:
    here = branch(name="Riverside")
    records = [here, *bills(here, 2)]
    for _ in range(2):
        console.service.load(*records)
    alice = console.operator()
    page = alice.page("/loads/1/undo")
    assert "undo it first" in page
    assert 'href="/loads/2"' in page
    assert "/loads/1/undo/remove" not in page
    assert 'href="/loads/2/undo"' in alice.page("/loads/2")
    assert "Now the load that added its bills can be undone." in undo(alice, 2, "remove").text
    assert "/loads/2/undo/remove" not in alice.page("/loads/2/undo")
    assert alice.json("/loads/1/undo.json")["takenBack"] == 2
    assert undo(alice, 1, "remove").status_code == 200
    assert alice.json(f"{shop_address(here['id'])}/days/2026-01-01.json")["bills"] == []


def test_a_load_that_never_was_has_no_undo(console: RunningConsole) -> None:
    console.service.load(shop())
    assert console.operator().get("/loads/99/undo").status_code == 404
