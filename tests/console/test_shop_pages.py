"""The page of a shop, its days and bills, one bill beside its JSON, and changes of a shop's facts."""

import re
from datetime import date
from typing import Any

import pytest

from console.conftest import InUse
from console.running_console import Operator, RunningConsole
from counterfoil.console.addresses import bill_address, day_address, shop_address
from counterfoil.model.calendar import thai_day
from records import base, bill, branch, line, shop

BOTH = [{"backend": "sqlite"}, {"backend": "postgres"}]
# An ID with everything that means something in an address.
ODD = "a/b?c=1&d#e%2F 100% ร้าน.json"


def sold(
    console: RunningConsole, of: dict[str, Any], days_ago: int, number: int, **fields: Any
) -> list[dict[str, Any]]:
    """Return bills that were sold at noon, so many days before the console's today."""
    day = thai_day(console.clock.now_ms() - days_ago * 86_400_000)
    return [bill(of, closedAt=f"{day}T0{place % 10}:00:00+07:00", **fields) for place in range(number)]


@pytest.mark.parametrize("console", BOTH, indirect=True, ids=["sqlite", "postgres"])
def test_a_shop_has_its_days_its_loads_its_keys_and_its_facts(console: RunningConsole) -> None:
    riverside = branch(name="Riverside")
    console.service.load(riverside)
    for weeks in range(1, 5):
        console.service.load(*sold(console, riverside, 7 * weeks + 1, 2))
    console.service.load(
        *sold(console, riverside, 1, 3), *sold(console, riverside, 1, 1, void=True), b'{"kind":"bill"}'
    )
    key_id = console.service.key(shop=riverside["id"], label="ERP").split("_")[2]
    alice = console.operator()
    address = shop_address(riverside["id"])
    page = alice.page(address)
    assert "Riverside" in page
    assert f'href="/keys/{key_id}"' in page
    found = alice.json(f"{address}.json")
    latest = found["days"][1]
    assert (latest["bills"], latest["voids"], latest["net"]) == (4, 1, "360")
    assert (latest["usualBills"], latest["usualNet"], latest["difference"]) == (2.0, "240", "120")
    assert [(load["bills"], load["rejected"], load["onlyThisShop"]) for load in found["loads"]][:2] == [
        (4, 1, True),
        (2, 0, True),
    ]
    assert [item["kind"] for item in found["openItems"]] == ["rejects"]
    assert [(key["keyId"], key["copy"]) for key in found["keys"]] == [(key_id, "never read")]
    assert (found["franchiseId"], found["closingTime"]) == (riverside["franchiseId"], "02:00")
    days = alice.csv(f"{address}.csv")
    assert (days[1]["bills"], days[1]["net"], days[1]["usual_net"]) == ("4", "360", "240")
    of_day = day_address(riverside["id"], thai_day(console.clock.now_ms() - 86_400_000))
    bills = alice.json(f"{of_day}.json")["bills"]
    assert [listed["status"] for listed in bills].count("void") == 1
    page = alice.page(of_day)
    assert all(bill_address(listed["billId"], riverside["id"]) in page for listed in bills)


def test_days_before_the_ones_shown_are_one_link_away(used: InUse) -> None:
    address = shop_address(used.shop["id"])
    page = used.alice.page(address)
    oldest = used.alice.json(f"{address}.json")["days"][-1]["day"]
    assert "Later days" not in page
    earlier = used.alice.json(f"{address}.json?until={oldest}")["days"]
    assert earlier[0]["day"] == oldest
    assert "Later days" in used.alice.page(f"{address}?until={oldest}")
    # A day that has not come, or none at all, shows the latest days.
    for until in ("2999-01-01", "nonsense", "0001-01-01"):
        assert used.alice.get(f"{address}?until={until}").status_code == 200


def test_an_id_may_contain_any_character(console: RunningConsole) -> None:
    odd = shop(id=ODD, name="<script>alert(1)</script>")
    sale = bill(odd, id=ODD, receiptNumber=None)
    console.service.load(odd)
    console.service.load(sale)
    alice = console.operator()
    assert "<script>alert" not in alice.page(shop_address(ODD))
    assert alice.json(f"{shop_address(ODD)}.json")["shopId"] == ODD
    assert "Imaginary" not in alice.page(bill_address(ODD, ODD))
    assert alice.json(bill_address(ODD, ODD).replace("?", ".json?"))["bill"]["id"] == ODD
    assert shop_address(ODD) in alice.page("/shops")
    assert alice.get("/find?q=a%2Fb").status_code == 200


def test_what_is_not_there_is_not_found(used: InUse) -> None:
    here = shop_address(used.shop["id"])
    for address in (
        "/shops/nowhere",
        "/shops/nowhere/settings",
        "/shops/%00",
        f"{here}/days/2026-02-30",
        "/bills/nothing",
        f"/bills/nothing?shop={used.shop['id']}",
        "/bills/%00",
        "/bills/%FF",
    ):
        assert used.alice.get(address).status_code == 404, address
    assert used.alice.get(f"{here}/days/none").status_code == 200
    assert used.alice.get(f"{here}/days/1999-12-31").status_code == 200


@pytest.mark.parametrize("console", BOTH, indirect=True, ids=["sqlite", "postgres"])
def test_a_bill_is_a_receipt_beside_its_json_as_the_api_gives_it(console: RunningConsole) -> None:
    here = branch(name="Riverside")
    lines = [
        line(name="Green curry", qty=2, unitPrice=60, total=120, options=[{"name": "Spicy", "qty": 1}]),
        line(name="Gone", qty=1, total=10, cancelled=True),
    ]
    amounts = {"subtotal": 120, "discount": 20, "serviceCharge": 10, "vat": 7.7, "vatType": "Include", "net": 110}
    sale = bill(here, lines=lines, amounts=amounts, payments=[{"name": "Cash", "amount": 150, "change": 40}])
    console.service.load(here)
    console.service.load(sale)
    alice = console.operator()
    address = bill_address(sale["id"], here["id"])
    page = alice.page(address)
    for text in ("Green curry", "cancelled", "−20.00", "7.70", "VAT, included", "110.00", "150.00", "−40.00"):
        assert text in page, text
    answer = console.service.get(f"transactions/{sale['id']}", console.service.key(shop=here["id"]))
    found = alice.json(address.replace("?", ".json?"))
    assert found["bill"] == answer.json()["data"]
    assert (found["load"], found["changed"]) == (2, False)
    assert "This bill was changed" not in page
    console.service.load({**sale, "amounts": {**amounts, "net": 111}})
    page = alice.page(address)
    assert "This bill was changed after it was first loaded:" in page
    assert alice.json(address.replace("?", ".json?"))["loadBefore"] == 2
    assert 'href="/loads/2"' in page


def test_a_bill_of_several_shops_asks_which_one(console: RunningConsole) -> None:
    one, other = shop(name="One"), shop(name="Other")
    console.service.load(one, other)
    console.service.load(bill(one, id="same"), bill(other, id="same"))
    alice = console.operator()
    page = alice.page("/bills/same")
    assert bill_address("same", one["id"]).replace("&", "&amp;") in page
    assert alice.json("/bills/same.json")["shops"] == sorted([one["id"], other["id"]])


def test_a_reader_sees_shops_and_bills_but_changes_no_facts(used: InUse) -> None:
    reader = used.console.device("tablet", "reader")
    here = shop_address(used.shop["id"])
    assert "Change facts" not in reader.page(here)
    assert reader.get(f"{here}/settings").status_code == 403
    listed = reader.json(f"{day_address(used.shop['id'], date(2026, 1, 1))}.json")["bills"]
    assert reader.get(bill_address(listed[0]["billId"], used.shop["id"])).status_code == 200


# --- the facts of a shop -----------------------------------------------------------------------


def change(alice: Operator, shop_id: str, **entered: str) -> Any:
    """Enter values, look at what they change, and change it."""
    address = f"{shop_address(shop_id)}/settings"
    query = "&".join(f"{name}={value}" for name, value in entered.items())
    action = f"{address}/change"
    return alice.send(action, alice.hidden(alice.page(f"{address}?{query}"), action))


def test_a_change_of_facts_shows_what_it_does_and_then_does_it_audited(used: InUse) -> None:
    shop_id, alice = used.shop["id"], used.alice
    franchise = used.shop["franchiseId"]
    used.console.service.key(franchise=franchise, label="Head office")
    address = f"{shop_address(shop_id)}/settings"
    preview = alice.page(f"{address}?franchise=noodles&closing=04:00")
    assert "Head office" in preview
    assert "no longer reads this shop" in preview
    assert "Up to 3 bills are rewritten." in preview
    assert alice.json(f"{address}.json")["franchiseId"] == franchise
    answer = change(alice, shop_id, franchise="noodles", closing="04:00")
    assert answer.status_code == 200
    assert "All its bills are rewritten." in answer.text
    found = alice.json(f"{shop_address(shop_id)}.json")
    assert (found["franchiseId"], found["closingTime"], found["rewriting"]) == ("noodles", "04:00", False)
    entry = alice.json("/audit.json")["entries"][0]
    assert (entry["act"], entry["actor"], entry["via"]) == ("shop_changed", "alice", "console")


def test_the_base_of_a_shop_is_changed_with_its_facts(used: InUse) -> None:
    shop_id, alice = used.shop["id"], used.alice
    address = f"{shop_address(shop_id)}/settings"
    club = branch()
    used.console.service.load(base(club))
    assert alice.json(f"{address}.json")["providerId"] == used.shop["providerId"]
    assert "no membership base nobody is loaded" in alice.page(f"{address}?base=nobody")
    assert change(alice, shop_id, base=club["providerId"]).status_code == 200
    assert alice.json(f"{address}.json")["providerId"] == club["providerId"]
    assert alice.json(f"{address}.json")["delivered"] == {"base": used.shop["providerId"]}
    assert change(alice, shop_id, reset_base="yes").status_code == 200
    assert alice.json(f"{address}.json")["providerId"] == used.shop["providerId"]


def test_what_an_operator_set_is_reset_to_what_the_shops_record_says(used: InUse) -> None:
    shop_id, alice = used.shop["id"], used.alice
    change(alice, shop_id, closing="04:00")
    address = f"{shop_address(shop_id)}/settings"
    assert alice.json(f"{address}.json")["delivered"] == {"closing": "02:00"}
    assert change(alice, shop_id, reset_closing="yes").status_code == 200
    assert alice.json(f"{address}.json")["closingTime"] == "02:00"
    assert alice.json(f"{address}.json")["delivered"] == {}


def test_a_value_that_is_not_valid_is_explained_and_changes_nothing(used: InUse) -> None:
    address = f"{shop_address(used.shop['id'])}/settings"
    for query, reason in (("closing=25:99", "is not a closing time"), ("timezone=Mars/Base", "is not a time zone")):
        page = used.alice.page(f"{address}?{query}")
        assert reason in page
        assert "Change now" not in page
    answer = used.alice.send(f"{address}/change", {"closing": "25:99"})
    assert answer.status_code == 422
    assert "is not a closing time" in answer.text
    assert used.alice.json(f"{address}.json")["closingTime"] == "02:00"


def test_a_change_is_refused_if_somebody_else_changed_the_shop_meanwhile(used: InUse) -> None:
    address = f"{shop_address(used.shop['id'])}/settings"
    action = f"{address}/change"
    entered = used.alice.hidden(used.alice.page(f"{address}?closing=05:00"), action)
    change(used.console.operator("bob"), used.shop["id"], closing="04:00")
    answer = used.alice.send(action, entered)
    assert answer.status_code == 409
    assert "Somebody else has changed this shop" in answer.text
    assert used.alice.json(f"{address}.json")["closingTime"] == "04:00"


@pytest.mark.parametrize("console", BOTH, indirect=True, ids=["sqlite", "postgres"])
def test_a_shop_that_a_wrong_file_brought_in_is_removed_on_its_page(console: RunningConsole) -> None:
    wrong, right = branch(name="Wrong"), branch(name="Right")
    console.service.load(right, *sold(console, right, 1, 2))
    console.service.load(wrong, *sold(console, wrong, 1, 2))
    key = console.service.key(shop=wrong["id"], label="ERP")
    alice, address = console.operator(), shop_address(wrong["id"])
    remove = f"{address}/remove"
    assert f'action="{remove}"' not in alice.page(address)
    answer = alice.send(remove, {})
    assert answer.status_code == 422
    assert "The shop has bills that are not void, so it was not removed." in answer.text
    undo = alice.json("/loads.json")["loads"][0]["number"]
    undo_page = f"/loads/{undo}/undo"
    undone = alice.send(f"{undo_page}/remove", alice.fill_in(undo_page, f"{undo_page}/remove"))
    assert f'href="{address}"' in undone.text.partition("These shops now have no bills, or only void ones.")[2]
    assert "This load is undone: its bills were removed or made void." in alice.page(undo_page)
    entered = alice.fill_in(address, remove)
    assert console.device("phone", role="reader").send(remove, entered).status_code == 403
    answer = alice.send(remove, entered)
    assert answer.status_code == 200
    assert "The shop was removed: Wrong" in answer.text
    assert [found["shopId"] for found in alice.json("/shops.json")["shops"]] == [right["id"]]
    assert alice.get(address).status_code == 404
    assert console.service.get("shops", key).json().get("data", []) == []
    entry = alice.json("/audit.json")["entries"][0]
    assert (entry["act"], entry["actor"], entry["detail"]) == ("shop_removed", "alice", wrong["id"])
    console.service.load(wrong)
    assert alice.get(address).status_code == 200


@pytest.mark.parametrize("console", BOTH, indirect=True, ids=["sqlite", "postgres"])
def test_a_shop_whose_bills_were_made_void_because_a_key_read_them_from_lists_is_removed(
    console: RunningConsole,
) -> None:
    wrong = branch(name="Wrong")
    console.service.load(wrong, *sold(console, wrong, 1, 2), *sold(console, wrong, 400, 1))
    key = console.service.key(shop=wrong["id"], label="ERP")
    yesterday = f"{thai_day(console.clock.now_ms() - 86_400_000):%Y%m%d}"
    bills = console.service.get("transactions", key, shopId=wrong["id"], **{"from": yesterday, "to": yesterday})
    assert len(bills.json()["data"]) == 2
    # Stopping the service writes the records of its requests.
    console.service.restart()
    alice, address = console.operator(), shop_address(wrong["id"])
    load = alice.json("/loads.json")["loads"][0]["number"]
    undo_page = f"/loads/{load}/undo"
    assert "The bills cannot be removed, because a key has read them from lists" in alice.page(undo_page)
    undone = alice.send(f"{undo_page}/void", alice.fill_in(undo_page, f"{undo_page}/void", reason="Wrong shop"))
    assert f'href="{address}"' in undone.text.partition("or only void ones.")[2]
    removed = alice.send(f"{address}/remove", alice.fill_in(address, f"{address}/remove"))
    assert removed.status_code == 200
    assert alice.json("/shops.json")["shops"] == []


def test_a_shop_whose_bills_are_all_of_the_future_is_not_one_without_bills(console: RunningConsole) -> None:
    early = branch(name="Early")
    console.service.load(early, *sold(console, early, -30, 1))
    address = shop_address(early["id"])
    assert f'action="{address}/remove"' not in console.operator().page(address)
    assert console.operator().send(f"{address}/remove", {}).status_code == 422


# --- Today -------------------------------------------------------------------------------------


@pytest.mark.parametrize("console", BOTH, indirect=True, ids=["sqlite", "postgres"])
def test_today_begins_with_what_the_shops_took_and_names_those_that_differ(console: RunningConsole) -> None:
    steady, fallen, new = shop(name="Steady"), shop(name="Fallen"), shop(name="New")
    console.service.load(steady, fallen, new)
    for weeks in range(1, 5):
        console.service.load(*sold(console, steady, 7 * weeks + 1, 2), *sold(console, fallen, 7 * weeks + 1, 4))
    console.service.load(*sold(console, steady, 1, 2), *sold(console, fallen, 1, 1), *sold(console, new, 1, 5))
    alice = console.operator()
    found = alice.json("/today.json")["business"]
    yesterday = found["yesterday"]
    assert (yesterday["bills"], yesterday["net"], yesterday["withoutUsual"]) == (8, "960", 1)
    assert (yesterday["comparedNet"], yesterday["usualNet"]) == ("360", "720")
    assert [differing["shopName"] for differing in found["differing"]] == ["Fallen"]
    page = alice.page("/")
    assert page.index("Net yesterday") < page.index("Requests today")
    assert shop_address(fallen["id"]) in page


def test_shops_whose_bills_were_brought_in_once_are_not_compared_with_what_is_usual(console: RunningConsole) -> None:
    once = shop(name="Once")
    month = [record for days_ago in range(2, 20) for record in sold(console, once, days_ago, 8)]
    console.service.load(once, *month)
    alice = console.operator()
    found = alice.json("/today.json")["business"]
    assert (found["imported"], found["yesterday"]["usualBills"], found["differing"]) == (1, 0, [])
    assert "1 shop is not compared, because its bills were brought in once." in alice.page("/")


def test_today_of_a_store_without_bills_has_no_figures_of_the_business(console: RunningConsole) -> None:
    console.service.load(shop(name="Riverside"))
    page = console.operator().page("/")
    assert "Net yesterday" in page
    assert "Nothing is known to be usual yet." in page


# --- lists -------------------------------------------------------------------------------------


def test_requests_begin_with_their_list_below_links_to_what_is_asked_most(shared: InUse) -> None:
    page = shared.alice.page("/requests")
    assert page.index('id="list"') < page.index('id="search"')
    for address in ("/requests?error=any", f"/requests?key={shared.key_id}"):
        assert f'href="{address}"' in page
        assert f'href="{address}" aria-current="page"' in shared.alice.page(address)
    since = re.findall(r'href="(/requests\?since=[^"]*)"', page)
    assert len(since) == 2, "the last hour and the current day"
    assert shared.alice.json(since[0].replace("?", ".json?"))["ignored"] == []


def test_one_request_names_its_shop_and_leads_to_it(shared: InUse) -> None:
    page = shared.alice.page(f"/requests?request={shared.ids['bills']}")
    assert f'href="{shop_address(shared.shop["id"])}"' in page
    assert f'data-text="{shared.ids["bills"]}"' in page


def test_an_audit_entry_with_several_changes_is_one_line_that_opens(used: InUse) -> None:
    page = used.alice.page("/audit")
    row = next(row for row in page.split("<tr") if used.key_id in row)
    assert '<details class="line"><summary>' in row


def test_errors_are_drawn_as_a_share_of_the_requests(shared: InUse) -> None:
    figure = shared.alice.page(f"/keys/{shared.key_id}").split("<figure")[2].partition("</figure>")[0]
    assert "Errors (%) 25, Errors 1, Requests 4" in figure
    assert ">4%</text>" not in figure
    assert ">40%</text>" in figure
