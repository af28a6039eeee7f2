"""An operator without a terminal brings in files: questions, totals, acceptance, and what becomes of them."""

import ast
import json
import os
import re
import socket
import subprocess
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib import resources
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli.command import PYTHON
from console.running_console import PAGE, SAME_ORIGIN, Operator, RunningConsole
from counterfoil import bootstrap
from counterfoil.cli import load_run, store_loader
from counterfoil.cli.load_run import LoadReport
from counterfoil.cli.store_loader import StoreLoader
from counterfoil.console import import_steps, import_words, imports
from counterfoil.console.form_texts import form_text
from counterfoil.console.rendering import templates
from counterfoil.console.texts import Texts
from counterfoil.domain.acceptances import accepted_item
from counterfoil.domain.audit import Act, Actor
from counterfoil.domain.open_items import LOAD_BEGINS_MS, OpenItem
from counterfoil.importer.form import Form
from counterfoil.importing import checks
from counterfoil.importing.headings import AMOUNT_ROLES, CHARGES
from counterfoil.importing.sentences import FormText
from counterfoil.ingest import converted_exports, sources
from counterfoil.ingest.spool import Spool
from counterfoil.ingest.watching import FolderWatch
from counterfoil.machine import private_listener
from counterfoil.operator_reads import OperatorReads
from counterfoil.program.process import SignalSafeEvent
from counterfoil.settings import Settings
from raw_http import parse, read_to_end
from running_service import ManualClock
from waiting import until

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
LOYVERSE = EXAMPLES / "loyverse-receipts.csv"
ASKED = b"""Receipt No,Date,Branch,Payment,Subtotal,VAT,Tip,Grand
1001,2026-11-13 12:04,Riverside,Cash,100.00,7.00,5.00,107.00
1002,2026-11-13 13:04,Riverside,Card,200.00,14.00,0.00,214.00
1003,2026-11-13 14:10,Old Town,Cash,50.00,3.50,10.00,53.50
"""
FACTS = {"other:franchise": "g", "other:closing": "04:00", "other:timezone": "Asia/Bangkok"}
WAIT_SEC = 30
# Asking for a page takes several milliseconds of the processor, which the process that is waited for needs.
ASK_EVERY_SEC = 0.05


def bring(operator: Operator, *files: tuple[str, bytes], **headers: str) -> httpx.Response:
    sent = [("files", (name, content)) for name, content in files]
    return operator.client.post("/imports", files=sent, headers={**PAGE, **(headers or SAME_ORIGIN)})


def brought(operator: Operator, *files: tuple[str, bytes]) -> str:
    """Bring files in, and return the address of their page when they have been read."""
    answer = bring(operator, *files)
    assert answer.status_code == 303, answer.text
    address = answer.headers["location"]
    settled(operator, address, "reading")
    return str(address)


def settled(operator: Operator, address: str, *passing: str) -> dict[str, Any]:
    """Return the data of an import once its state is none of these."""
    found: dict[str, Any] = {}

    def is_settled() -> bool:
        found.update(operator.json(f"{address}.json"))
        return found["state"] not in passing

    until(is_settled, f"{address} leaves {passing}", WAIT_SEC, ASK_EVERY_SEC)
    return found


def send(operator: Operator, action: str, **fields: str) -> httpx.Response:
    return operator.send(action, fields, **PAGE, **SAME_ORIGIN)


def accept(operator: Operator, address: str, **fields: str) -> dict[str, Any]:
    assert send(operator, f"{address}/accept", **fields).status_code == 303
    return settled(operator, address, "loading", "waiting", "taken")


def folder_of(console: RunningConsole) -> Path:
    folder = console.app._imports._folder
    assert folder is not None
    return folder


def reads(console: RunningConsole) -> OperatorReads:
    return bootstrap.store(console.settings).reads()


def bills_of(console: RunningConsole) -> int:
    totals = [reads(console).totals(load.number) for load in reads(console).loads(10)]
    return sum(found.bills for found in totals if found)


# --- a known till --------------------------------------------------------------------------


@pytest.mark.usefixtures("_new_interpreter")
def test_a_known_till_comes_in_with_one_look_at_the_totals(console: RunningConsole, alice: Operator) -> None:
    address = brought(alice, ("receipts.csv", LOYVERSE.read_bytes()))
    page = alice.page(address)
    assert "Riverside" in page
    assert alice.json(f"{address}.json")["newShops"] == ["Riverside"]
    facts = {"other:franchise": "our-group", "other:closing": "04:00", "other:timezone": "Asia/Bangkok"}
    assert send(alice, f"{address}/answers", **facts).status_code == 303
    found = settled(alice, address, "reading")
    assert (found["state"], found["totals"]["bills"], found["totals"]["net"]) == ("checked", 3, "135.00")
    assert bills_of(console) == 0
    assert "135.00" in alice.page(address)
    loaded = accept(alice, address)
    assert (loaded["state"], loaded["load"]) == ("loaded", 1)
    assert f'href="/loads/{loaded["load"]}"' in alice.page(address)
    assert bills_of(console) == 3
    (shop,) = bootstrap.store(console.settings).reads().known_facts()
    assert (shop.facts.franchise_id, shop.facts.closing) == ("our-group", "04:00")
    until(lambda: not list(folder_of(console).iterdir()), "the files are deleted")
    again = brought(alice, ("receipts.csv", LOYVERSE.read_bytes()))
    found = alice.json(f"{again}.json")
    assert (found["state"], found["newShops"]) == ("checked", [])
    assert found["doubts"] == []
    # Nothing is replaced, but a load whose bills are delivered again cannot be undone.
    assert "had the same bills and net on each day of each shop" in alice.page(again)


def test_a_known_till_is_read_once_however_often_its_shops_are_described(
    console: RunningConsole, alice: Operator
) -> None:
    address = brought(alice, ("receipts.csv", LOYVERSE.read_bytes()))
    headings = re.findall(r'"heading">([^<]*)</span> <span class="as">\s*([^<]*?)\s*</span>', alice.page(address))
    assert {("Date", "date and time"), ("Receipt type", "state"), ("Total collected", "what was paid")} < set(headings)
    # It is only compared with the gross sales and the discounts.
    assert {("Net sales", "not read"), ("Payment type", "way of paying")} < set(headings)
    (kept,) = folder_of(console).rglob("receipts.csv")
    kept.unlink()
    send(alice, f"{address}/answers", **FACTS)
    assert settled(alice, address, "reading")["state"] == "checked"
    send(alice, f"{address}/answers", forget="facts")
    assert settled(alice, address, "reading")["state"] == "asking"
    send(alice, f"{address}/answers", **{**FACTS, "other:franchise": "other"})
    assert settled(alice, address, "reading")["state"] == "checked"
    accept(alice, address)
    (shop,) = reads(console).known_facts()
    assert (shop.facts.franchise_id, shop.facts.timezone) == ("other", "Asia/Bangkok")


@pytest.mark.parametrize(
    ("name", "said", "net"),
    [
        ("foodics-orders.json", ["Asia/Riyadh"], "150.50"),
        ("clover-orders.json", ["EUR", "America/New_York", "usd"], "76.94"),
        ("loyverse-items-es.csv", ["Orilla"], "50.00"),
    ],
    ids=["time zone", "currency", "shop"],
)
def test_what_a_known_till_does_not_say_is_asked(alice: Operator, name: str, said: list[str], net: str) -> None:
    address = brought(alice, (name, (EXAMPLES / name).read_bytes()))
    for answer in said:
        page = alice.page(address)
        assert 'name="said"' in page
        assert "/accept" not in page
        # The currency is asked again, because with euros no row could be read.
        assert ("With “EUR”, none of the rows can be read." in page) == (answer == "usd")
        send(alice, f"{address}/answers", said=answer)
        settled(alice, address, "reading")
    send(alice, f"{address}/answers", **FACTS)
    found = settled(alice, address, "reading")
    assert (found["state"], found["totals"]["net"]) == ("checked", net)


def test_dates_that_may_be_in_either_order_are_asked_about_once(console: RunningConsole, alice: Operator) -> None:
    receipts = LOYVERSE.read_bytes().replace(b"11/14/26", b"11/12/26")
    address = brought(alice, ("receipts.csv", receipts))
    assert "12 November 2026" in alice.page(address)
    assert send(alice, f"{address}/answers", **{"answer:order": "mdy"}).status_code == 303
    settled(alice, address, "reading")
    assert send(alice, f"{address}/answers", **FACTS).status_code == 303
    assert settled(alice, address, "reading")["totals"]["firstDay"] == "2026-11-12"
    accept(alice, address)
    another = brought(alice, ("more.csv", receipts.replace(b"11/12/26", b"11/11/26").replace(b"1-000", b"1-001")))
    assert alice.json(f"{another}.json")["state"] == "checked"


def test_a_file_in_which_no_row_can_be_read_cannot_be_accepted(alice: Operator) -> None:
    heading = LOYVERSE.read_text("utf-8-sig").splitlines()[0]
    address = brought(alice, ("receipts.csv", heading.encode() + b"\n" + b"x," * 18 + b"\n"))
    assert "Nothing in this file can be loaded." in alice.page(address)
    send(alice, f"{address}/accept")
    assert alice.json(f"{address}.json")["state"] == "checked"


SET = {
    "bills.csv": b"Bill No,Closed,Branch,Total\nB-1,2026-11-13 12:04,Inn,107.00\nB-2,2026-11-13 13:04,Old,214.00\n",
    "items.csv": b"Bill,Item,Qty,Amount\nB-1,Tea,1,37.00\nB-1,Soup,2,70.00\nB-2,Rice,2,214.00\n",
    "payments.csv": b"Bill,Method,Paid\nB-1,Cash,107.00\nB-2,Card,214.00\n",
}


def test_bills_items_and_payments_in_files_of_their_own_come_in_together(
    console: RunningConsole, alice: Operator
) -> None:
    address = brought(alice, *SET.items())
    page = alice.page(address)
    chosen = re.findall(r'<option value="(\w+)" selected>', page)
    assert chosen == ["bills", "lines", "payments"]
    send(alice, f"{address}/answers", **{f"kind:{place}": kind for place, kind in enumerate(chosen)})
    assert settled(alice, address, "reading")["form"]["proven"]
    send(alice, f"{address}/answers", **FACTS)
    found = settled(alice, address, "reading")
    assert (found["state"], found["totals"]["net"]) == ("checked", "321.00")
    assert accept(alice, address)["state"] == "loaded"
    shop, _ = sorted(known.facts.shop_id for known in reads(console).known_facts())
    (of_day,) = alice.json(f"/shops/{shop}/days/2026-11-13.json")["bills"]
    assert (of_day["net"], of_day["lines"]) == ("107", 2)
    # The next day, in another order: what each file is was said before.
    later = [(name, content.replace(b"2026-11-13", b"2026-11-14")) for name, content in reversed(SET.items())]
    again = settled(alice, brought(alice, *later), "reading")
    assert (again["state"], again["totals"]["net"]) == ("checked", "321.00")
    # Without the payments, they are not the files that were answered for.
    assert settled(alice, brought(alice, *later[1:]), "reading")["state"] == "asking"


def test_the_two_reports_of_a_known_till_come_in_together(alice: Operator) -> None:
    names = ("loyverse-receipts.csv", "loyverse-receipts-by-item.csv")
    address = brought(alice, *((name, (EXAMPLES / name).read_bytes()) for name in names))
    send(alice, f"{address}/answers", **FACTS)
    found = settled(alice, address, "reading")
    assert (found["state"], found["totals"]["net"]) == ("checked", "135.00")


def test_members_need_a_base_and_then_come_in(console: RunningConsole, alice: Operator) -> None:
    address = brought(alice, ("customers.csv", (EXAMPLES / "loyverse-customers.csv").read_bytes()))
    assert 'name="said"' in alice.page(address)
    send(alice, f"{address}/answers", said="club")
    assert settled(alice, address, "reading")["state"] == "checked"
    assert ">number of the member</span>" in re.sub(r"\s*</span>", "</span>", alice.page(address))
    assert accept(alice, address)["state"] == "loaded"
    assert [base.provider_id for base in reads(console).bases()] == ["club"]
    assert "No shop has the membership base club yet, so no key can read these members." in alice.page(address)


def test_the_base_of_new_members_is_given_to_all_shops_without_one_at_once(
    console: RunningConsole, alice: Operator
) -> None:
    sales = brought(alice, ("sales.csv", LOYVERSE.read_bytes().replace(b"Riverside", b"Old Town", 1)))
    send(alice, f"{sales}/answers", **FACTS)
    settled(alice, sales, "reading")
    accept(alice, sales)
    key = console.service.key(franchise="g", label="Head office")
    members = brought(alice, ("customers.csv", (EXAMPLES / "loyverse-customers.csv").read_bytes()))
    send(alice, f"{members}/answers", said="club")
    settled(alice, members, "reading")
    accept(alice, members)
    page = alice.page(members)
    assert "Old Town, Riverside" in page
    assert "begins to read the members of club" in page
    assert send(alice, f"{members}/base", version="of other shops").status_code == 409
    answer = send(alice, f"{members}/base", **alice.hidden(page, f"{members}/base"))
    assert "The shops have this base now." in answer.text
    assert [shop.facts.provider_id for shop in reads(console).loaded_shops()] == ["club", "club"]
    assert len(console.service.get("members", key, providerId="club").json()["data"]) == 3
    assert "No shop has the membership base" not in alice.page(members)
    entry = alice.json("/audit.json")["entries"][0]
    assert (entry["act"], entry["actor"], entry["via"]) == ("shop_changed", "alice", "console")


# --- questions -------------------------------------------------------------------------------


def test_questions_are_asked_and_the_answers_are_kept_for_the_next_file(
    console: RunningConsole, alice: Operator
) -> None:
    address = brought(alice, ("sales.csv", ASKED))
    page = alice.page(address)
    assert "What did the customer pay, tip included?" in page
    assert "389.50" in page
    assert "bills 1001 and 1003 have the same value" in page
    assert "/accept" not in page
    send(alice, f"{address}/answers", **{"answer:net": "Subtotal + VAT + Tip"})
    form = settled(alice, address, "reading")["form"]
    assert [question["id"] for question in form["questions"]] == ["timezone", "franchise", "closing"]
    assert "About the new shops" in alice.page(address)
    send(alice, f"{address}/answers", change="net")
    assert settled(alice, address, "reading")["form"]["answers"] == {}
    send(alice, f"{address}/answers", **{"answer:net": "Subtotal + VAT + Tip"})
    settled(alice, address, "reading")
    send(
        alice,
        f"{address}/answers",
        **{"other:timezone": "Asia/Bangkok", "other:franchise": "g", "other:closing": "03:00"},
    )
    found = settled(alice, address, "reading")
    assert (found["state"], found["totals"]["net"]) == ("checked", "389.50")
    alice.page(address)
    assert accept(alice, address)["state"] == "loaded"
    assert len(list((console.settings.store / "mappings").iterdir())) == 1
    more = ASKED.replace(b"1001,", b"2001,").replace(b"1002,", b"2002,").replace(b"1003,", b"2003,")
    again = brought(alice, ("sales.csv", more.replace(b"2026-11-13", b"2026-11-12")))
    assert alice.json(f"{again}.json")["state"] == "checked"
    acts = [entry.act for entry in reads(console).audit(20)]
    assert {"file_brought_in", "file_accepted", "mapping_accepted"} <= set(acts)


FIVE = b"""No.,Date,Outlet,Payout Status,Guest,Amount,Tip,Due
1001,03/04/2026 18:05,Riverside,Paid,New,1.250,40,1.290
1002,03/04/2026 19:10,Riverside,Pending,Returning,2.300,0,2.300
1003,04/04/2026 12:00,Old Town,Paid,New,1.990,10,2.000
1004,05/04/2026 12:30,Riverside,Cancelled,New,3.400,0,3.400
"""


def test_questions_are_counted_and_the_answers_are_shown_in_the_words_of_their_options(alice: Operator) -> None:
    address = brought(alice, ("five.csv", FIVE))
    page = alice.page(address)
    assert "Question 1 of 4" in page
    # What is left out depends on answers that nobody has given yet.
    assert "left out</span>" not in page
    send(alice, f"{address}/answers", **{"answer:decimals": "."})
    settled(alice, address, "reading")
    send(alice, f"{address}/answers", **{"answer:order": "dmy"})
    settled(alice, address, "reading")
    send(alice, f"{address}/answers", **{"answer:state.Payout Status": "skip"})
    settled(alice, address, "reading")
    page = re.sub(r"<[^>]*>", "", alice.page(address))
    assert "Question 4 of 4" in page
    assert "Decimal mark: 1.250 has three decimals" in page
    assert "Order of dates: 3 April 2026, 4 April 2026, 5 April 2026" in page
    assert "What does “Payout Status” say about a bill? Pending, Cancelled were not sold: leave out" in page
    send(alice, f"{address}/answers", change="order")
    settled(alice, address, "reading")
    assert "Order of dates:" not in re.sub(r"<[^>]*>", "", alice.page(address))


def test_the_column_of_times_is_shown_as_one_although_its_heading_says_something_else(alice: Operator) -> None:
    content = b"Bill No,Closed,Branch,Total\nB-1,2026-11-13 12:04,Inn,107.00\nB-2,2026-11-13 13:04,Old,214.00\n"
    form = alice.json(f"{brought(alice, ('bills.csv', content))}.json")["form"]
    assert [column["role"] for column in form["columns"]] == ["id", "datetime", "shopId", "net"]


def test_every_role_that_the_importer_gives_to_a_column_has_a_name() -> None:
    parts = templates().get_template("import_parts.html").make_module({"t": Texts("th")})
    names = vars(parts)["role_names"]
    words = tomllib.loads((resources.files("counterfoil.importing") / "words.toml").read_text("utf-8"))
    roles = {*words["headings"], *AMOUNT_ROLES, *CHARGES, "state", "cancelled"}
    assert roles - names.keys() == set()


def test_the_net_of_the_day_report_must_be_that_of_the_file(alice: Operator) -> None:
    address = brought(alice, ("receipts.csv", LOYVERSE.read_bytes()))
    send(alice, f"{address}/answers", **FACTS)
    settled(alice, address, "reading")
    send(alice, f"{address}/net", net="1,135.00")
    assert "differs by" in alice.page(address)
    assert send(alice, f"{address}/accept").status_code == 422
    send(alice, f"{address}/net", net="135")
    assert "It is the same as the net of the file." in alice.page(address)
    assert send(alice, f"{address}/net", net="much").status_code == 422
    assert accept(alice, address)["state"] == "loaded"


# --- files that cannot be read ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.csv", b""),
        ("program.csv", b"MZ\x90\x00" + bytes(range(256)) * 40),
        ("picture.png", b"\x89PNG\r\n\x1a\n" + bytes(500)),
        ("broken.xlsx", b"PK\x03\x04" + bytes(200)),
        ("one-column.csv", b"a\n1\n2\n"),
    ],
)
def test_a_file_that_is_no_export_gets_an_answer_and_leaves_nothing(
    console: RunningConsole, alice: Operator, name: str, content: bytes
) -> None:
    address = brought(alice, (name, content))
    page = alice.page(address)
    found = alice.json(f"{address}.json")
    assert found["state"] == "failed"
    assert found["problem"] or found["form"]["advice"], found
    assert "Nothing of this file was loaded." in page
    assert "/accept" not in page
    assert send(alice, f"{address}/discard").status_code == 200
    assert alice.get(address).status_code == 404
    assert list(folder_of(console).rglob("*")) == []


# --- who may ------------------------------------------------------------------------------------


def test_a_reader_sees_neither_uploads_nor_rows(console: RunningConsole, alice: Operator) -> None:
    address = brought(alice, ("sales.csv", ASKED))
    reader = console.device("kitchen", "reader")
    assert 'href="/imports"' not in reader.page("/loads")
    for path in ("/imports", "/imports.json", address, f"{address}.json"):
        assert reader.get(path).status_code == 403
    assert bring(reader, ("sales.csv", ASKED)).status_code == 403
    for action in ("answers", "net", "accept", "discard"):
        assert send(reader, f"{address}/{action}").status_code == 403
    assert alice.get(address).status_code == 200


@pytest.mark.parametrize(
    ("headers", "is_signed_in", "status"),
    [
        ({"sec-fetch-site": "cross-site"}, True, 403),
        ({"origin": "https://evil.example"}, True, 403),
        ({"x-nothing": "at all"}, True, 403),
        (SAME_ORIGIN, False, 401),
        ({**SAME_ORIGIN, "host": "evil.example"}, True, 421),
    ],
    ids=["another site", "another origin", "no origin", "not signed in", "another host"],
)
def test_an_upload_that_may_not_come_is_refused_before_its_body_has_come(
    console: RunningConsole,
    alice: Operator,
    headers: dict[str, str],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_signed_in: bool,
) -> None:
    # This client sends no more, and reads to the end of the connection.
    monkeypatch.setattr(private_listener, "DISCARD_SEC", 0.2)
    cookies = "; ".join(f"{name}={value}" for name, value in alice.client.cookies.items())
    sent = {**headers, "cookie": cookies} if is_signed_in else headers
    assert _status_of_head(console, sent) == status
    assert list(folder_of(console).iterdir()) == []


def _status_of_head(console: RunningConsole, headers: dict[str, str]) -> int:
    """Return the status of an answer to the head of an upload whose body never comes."""
    lines = {"host": httpx.URL(console.url).netloc.decode(), **headers}
    lines |= {"content-type": "multipart/form-data; boundary=b", "content-length": "50000000"}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    with socket.create_connection(("127.0.0.1", console.settings.console_port), WAIT_SEC) as connection:
        connection.sendall(f"POST /imports HTTP/1.1\r\n{head}\r\n".encode())
        return parse(read_to_end(connection)).status


def test_one_device_sends_one_upload_at_a_time(console: RunningConsole, alice: Operator) -> None:
    cookies = "; ".join(f"{name}={value}" for name, value in alice.client.cookies.items())
    lines = {"host": httpx.URL(console.url).netloc.decode(), "cookie": cookies, **SAME_ORIGIN}
    lines |= {"content-type": "multipart/form-data; boundary=b", "content-length": "1000"}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    with socket.create_connection(("127.0.0.1", console.settings.console_port), WAIT_SEC) as slow:
        slow.sendall(f"POST /imports HTTP/1.1\r\n{head}\r\n--b\r\n".encode())
        until(lambda: list(folder_of(console).iterdir()), "the first upload has begun")
        assert bring(alice, ("sales.csv", ASKED)).status_code == 409
        assert bring(console.device("phone"), ("sales.csv", ASKED)).status_code == 303
        assert alice.get("/loads").status_code == 200
    until(lambda: bring(alice, ("sales.csv", ASKED)).status_code == 303, "the cut upload has ended")


def test_files_that_cannot_be_loaded_make_room_for_others() -> None:
    waiting = imports.Imports(ManualClock(0))
    waiting.open()
    actor = Actor("alice", "console", "back-office")
    broken, *others = [waiting.new(actor) for _ in range(imports.MAX_IMPORTS)]
    with pytest.raises(imports.UploadBusy):
        waiting.new(actor)
    broken.stage = imports.Failed(problem=import_steps.CANNOT_READ(why="it is broken"))
    assert waiting.new(actor).folder.exists()
    assert (broken.folder.exists(), [other.folder.exists() for other in others]) == (False, [True] * len(others))
    waiting.close()


def test_files_end_after_a_day_and_when_the_console_starts_again(console: RunningConsole, alice: Operator) -> None:
    address = brought(alice, ("sales.csv", ASKED))
    folder = folder_of(console)
    assert [oct(path.stat().st_mode & 0o777) for path in folder.rglob("sales.csv")] == ["0o600"]
    assert oct(folder.stat().st_mode & 0o777) == "0o700"
    console.clock.advance(imports.KEPT_MS // 1000)
    alice = console.operator("alice")
    assert alice.get(address).status_code == 404
    assert list(folder.iterdir()) == []
    address = brought(alice, ("sales.csv", ASKED))
    discarded = brought(alice, ("discarded.csv", ASKED))
    send(alice, f"{discarded}/discard")
    assert alice.json("/imports.json")["lostFiles"] == []
    console.clock.advance(1)
    console.restart()
    assert not folder.exists()
    assert "bring it in again" in alice.get(address).text
    assert alice.json("/imports.json")["lostFiles"] == ["sales.csv"]
    assert "sales.csv" in alice.page("/imports")
    brought(alice, ("sales.csv", ASKED))
    assert alice.json("/imports.json")["lostFiles"] == []


@pytest.mark.usefixtures("_new_interpreter")
def test_what_was_accepted_is_loaded_although_the_console_stops(
    console: RunningConsole, alice: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "LOADS_END_SEC", 0)
    address = known(alice)
    send(alice, f"{address}/accept")
    console.restart()
    until(lambda: bills_of(console) == 3, "the records are loaded", WAIT_SEC)
    assert alice.get(address).status_code == 404
    assert alice.json("/imports.json")["lostFiles"] == []


@pytest.mark.usefixtures("_new_interpreter")
def test_a_load_that_ends_before_it_begins_is_on_the_page_and_waits_as_an_item(
    console: RunningConsole, alice: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = known(alice)
    with monkeypatch.context() as patch:
        patch.setattr(import_steps, "LOADER", "counterfoil.cli.missing")
        send(alice, f"{address}/accept")
        assert settled(alice, address, "loading")["state"] == "failed"
    assert "the load has failed" in alice.page(address)
    until(
        lambda: [item.kind for item in reads(console).open_items() if item.reason] == ["not_begun"], "the item says why"
    )
    assert "its load has not begun" in alice.page("/loads")
    (finding,) = [found for found in alice.json("/today.json")["findings"] if found["check"] == "items"]
    assert (finding["code"], finding["status"]) == ("items_not_begun", "warn")
    send(alice, f"{address}/discard")
    assert reads(console).open_items() == []
    # An item that says nothing, because the console was killed too, is due after a while.
    item = accepted_item("other.ndjson")
    assert [item.is_due(ms) for ms in (0, LOAD_BEGINS_MS, LOAD_BEGINS_MS + 1)] == [False, False, True]
    assert accept(alice, known(alice))["state"] == "loaded"
    assert reads(console).open_items() == []


# --- hand over ------------------------------------------------------------------------------------


@pytest.fixture
def watched(tmp_path: Path) -> Path:
    folder = tmp_path / "incoming"
    folder.mkdir()
    return folder


def known(operator: Operator) -> str:
    address = brought(operator, ("receipts.csv", LOYVERSE.read_bytes()))
    send(operator, f"{address}/answers", **FACTS)
    assert settled(operator, address, "reading")["state"] == "checked"
    return address


def test_accepted_records_go_to_the_watched_folder(tmp_path: Path, watched: Path) -> None:
    with closing(RunningConsole(tmp_path / "console", console_deliveries=str(watched))) as console:
        alice = console.operator()
        address = known(alice)
        assert list(watched.iterdir()) == []
        send(alice, f"{address}/accept")
        (delivered,) = watched.iterdir()
        assert delivered.name == f"receipts.csv.{address.rpartition('/')[2]}.ndjson"
        assert oct(delivered.stat().st_mode & 0o777) == "0o640"
        records = [json.loads(line) for line in delivered.read_text().splitlines()]
        assert [record["kind"] for record in records] == ["shop", "bill", "bill", "bill"]
        assert alice.json(f"{address}.json")["state"] == "waiting"
        alice.page(address)
        assert bills_of(console) == 0
        delivered.unlink()
        assert alice.json(f"{address}.json")["state"] == "taken"


def test_a_file_that_two_devices_accept_at_once_is_handed_over_once(tmp_path: Path, watched: Path) -> None:
    with closing(RunningConsole(tmp_path / "console", console_deliveries=str(watched))) as console:
        devices = [console.operator(), console.device("phone"), console.device("tablet")]
        address = known(devices[0])
        with ThreadPoolExecutor() as pool:
            answers = list(pool.map(lambda device: send(device, f"{address}/accept"), devices))
        assert [answer.status_code for answer in answers] == [303, 303, 303]
        assert len(list(watched.iterdir())) == 1
        assert [entry.act for entry in reads(console).audit(20)].count(Act.FILE_ACCEPTED) == 1


def test_a_folder_that_cannot_be_written_loses_nothing(tmp_path: Path) -> None:
    with closing(RunningConsole(tmp_path / "console", console_deliveries=str(tmp_path / "missing"))) as console:
        alice = console.operator()
        address = known(alice)
        answer = send(alice, f"{address}/accept")
        assert answer.status_code == 507
        assert "No such file or directory" in answer.text
        assert alice.json(f"{address}.json")["state"] == "checked"


def test_the_file_of_an_open_item_opens_the_same_page(console: RunningConsole, alice: Operator, tmp_path: Path) -> None:
    waiting = tmp_path / "20261114T120000Z-0a0b0c0d-sales.csv"
    waiting.write_bytes(ASKED)
    item = OpenItem(identity=waiting.name, kind="needs_answers", files={"sales.csv": 0}, path=str(waiting))
    with closing(bootstrap.store(console.settings).ledger()) as ledger:
        ledger.add_items([item])
    (found,) = reads(console).open_items()
    page = alice.page(f"/loads/items/{found.number}")
    assert f'action="/imports/items/{found.number}"' in page
    assert "Nobody has said yet what its columns mean." in page
    assert f'href="/loads/items/{found.number}"' in alice.page("/loads")
    answer = send(alice, f"/imports/items/{found.number}")
    address = answer.headers["location"]
    settled(alice, address, "reading")
    assert "What did the customer pay, tip included?" in alice.page(address)
    send(alice, f"{address}/answers", **{"answer:net": "Subtotal + VAT"})
    settled(alice, address, "reading")
    send(
        alice,
        f"{address}/answers",
        **{"other:timezone": "Asia/Bangkok", "other:franchise": "g", "other:closing": "none"},
    )
    assert settled(alice, address, "reading")["state"] in ("checked", "asking")


@pytest.mark.programs
def test_the_watcher_loads_what_was_accepted_and_the_page_follows_it(tmp_path: Path, watched: Path) -> None:
    with closing(RunningConsole(tmp_path / "console", console_deliveries=str(watched))) as console:
        alice = console.operator()
        address = known(alice)
        command = [*PYTHON, "load", "--watch", str(watched), "--store", str(console.settings.store)]
        environment = {**os.environ, "COUNTERFOIL_SECRET": console.settings.secret}
        with subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment) as watcher:
            try:
                found = accept(alice, address)
            finally:
                watcher.terminate()
        assert (found["state"], found["load"]) == ("loaded", 1)
        assert f'href="/loads/{found["load"]}"' in alice.page(address)
        assert bills_of(console) == 3
        assert [path.name for path in watched.iterdir() if path.is_file()] == []


HEADINGS, RECEIPT, *_ = LOYVERSE.read_bytes().splitlines(keepends=True)
EVENING = HEADINGS + b"".join(RECEIPT.replace(b"1-0003", b"1-%d" % number) for number in range(1000, 1060))
# The same bills, five hours earlier.
NOON = EVENING.replace(b"6:05 PM", b"1:05 PM")


@pytest.fixture
def evening(console_of_folder: RunningConsole) -> Operator:
    """An operator who has brought in the bills of an evening, which the watcher has loaded."""
    alice = console_of_folder.operator()
    hand_over(alice, EVENING)
    take(console_of_folder)
    assert bills_of(console_of_folder) == 60
    return alice


@pytest.fixture
def console_of_folder(tmp_path: Path, watched: Path) -> Iterator[RunningConsole]:
    with closing(RunningConsole(tmp_path / "console", console_deliveries=str(watched))) as console:
        yield console


def hand_over(operator: Operator, content: bytes, **fields: str) -> str:
    """Bring in a file, accept it, and return the address of its page."""
    address = brought(operator, ("receipts.csv", content))
    if operator.json(f"{address}.json")["state"] == "asking":
        send(operator, f"{address}/answers", **FACTS)
        assert settled(operator, address, "reading")["state"] == "checked"
    assert send(operator, f"{address}/accept", **fields).status_code == 303
    return address


def take(console: RunningConsole) -> None:
    """Run a round of a watcher in this process."""
    folder = Path(console.settings.console_deliveries)
    kept = folder.with_name("kept")
    kept.mkdir(exist_ok=True)
    with closing(Spool(folder, kept)) as spool:
        loader = StoreLoader(console.settings, folder, SignalSafeEvent(), as_json=True)
        FolderWatch(spool, loader, print, lambda: 0).take_files()


def test_what_was_shown_and_accepted_is_loaded_without_another_question(
    console_of_folder: RunningConsole, evening: Operator
) -> None:
    address = hand_over(evening, NOON, nevertheless="on")
    take(console_of_folder)
    assert evening.json(f"{address}.json")["state"] == "loaded"
    assert reads(console_of_folder).open_items() == []
    (latest, _) = reads(console_of_folder).loads(10)
    assert (latest.changed, latest.is_accepted) == (60, True)
    (entry,) = [entry for entry in reads(console_of_folder).audit(20) if entry.act == Act.DELIVERY_ACCEPTED]
    assert entry.detail == "receipts.csv: 60 of 60 bills replace a stored bill by another one"


@pytest.fixture
def comparisons(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were compared with the store in this process, and not loaded."""
    names: list[str] = []
    run_load = load_run.run_load

    def run(settings: Settings, report: LoadReport, **options: Any) -> None:
        if report.check:
            names.append(report.summary.source)
        run_load(settings, report, **options)

    monkeypatch.setattr(load_run, "run_load", run)
    return names


def test_accepted_records_are_not_compared_again_while_the_store_is_the_same(
    console_of_folder: RunningConsole, evening: Operator, comparisons: list[str]
) -> None:
    address = hand_over(evening, NOON, nevertheless="on")
    take(console_of_folder)
    assert evening.json(f"{address}.json")["state"] == "loaded"
    assert comparisons == []
    assert reads(console_of_folder).loads(10)[0].changed == 60


def test_accepted_records_are_compared_again_after_another_load_has_begun(
    console_of_folder: RunningConsole, evening: Operator, comparisons: list[str]
) -> None:
    address = hand_over(evening, NOON, nevertheless="on")
    with closing(bootstrap.store(console_of_folder.settings).ledger()) as ledger:
        ledger.begin_load("other.ndjson")
    take(console_of_folder)
    assert evening.json(f"{address}.json")["state"] == "loaded"
    assert comparisons == [f"receipts.csv.{address.rpartition('/')[2]}.ndjson"]


def test_the_page_shows_how_much_of_an_accepted_file_the_watcher_has_compared(
    console_of_folder: RunningConsole, evening: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_loader, "COMPARED_SEC", 0.0)
    monkeypatch.setattr(sources, "BUFFER_BYTES", 4096)
    address = hand_over(evening, NOON, nevertheless="on")
    assert "<progress" not in evening.page(address)
    with closing(bootstrap.store(console_of_folder.settings).ledger()) as ledger:
        # The store has changed since the console has compared the file.
        ledger.begin_load("other.ndjson")
    shares = set()
    report_if_due = StoreLoader.report_if_due

    def look(loader: StoreLoader) -> None:
        report_if_due(loader)
        page = evening.page(address)
        shares.update(re.findall(r'<progress max="100" value="([0-9]+)" aria-label="How much is compared"', page))

    monkeypatch.setattr(StoreLoader, "report_if_due", look)
    take(console_of_folder)
    assert len(shares) > 1
    found = evening.json(f"{address}.json")
    assert found["state"] == "loaded"


def test_a_doubt_that_was_not_shown_holds_a_file_that_was_accepted(console_of_folder: RunningConsole) -> None:
    alice = console_of_folder.operator()
    # The store has no bills yet, so that neither file is doubtful when it is accepted.
    addresses = [hand_over(alice, EVENING), hand_over(alice, NOON)]
    take(console_of_folder)
    assert sorted(alice.json(f"{address}.json")["state"] for address in addresses) == ["held", "loaded"]
    (item,) = reads(console_of_folder).open_items()
    assert item.kind == "held"
    assert "Only moved to another day, or by hours as in another time zone: 60." in item.reason
    assert "This was not shown when the file was accepted in the console." in item.reason


def test_an_acceptance_is_of_no_use_for_other_records(
    console_of_folder: RunningConsole, evening: Operator, watched: Path
) -> None:
    address = hand_over(evening, NOON, nevertheless="on")
    (delivered,) = watched.glob("*.ndjson")
    forged = delivered.read_bytes().replace(b"13:05", b"14:05")
    assert len(forged) == delivered.stat().st_size
    assert forged != delivered.read_bytes()
    delivered.write_bytes(forged)
    take(console_of_folder)
    assert evening.json(f"{address}.json")["state"] == "held"
    assert [load.changed for load in reads(console_of_folder).loads(10)] == [61]


def test_an_acceptance_counts_once(console_of_folder: RunningConsole, evening: Operator, watched: Path) -> None:
    hand_over(evening, NOON, nevertheless="on")
    (delivered,) = watched.glob("*.ndjson")
    noon = delivered.read_bytes()
    take(console_of_folder)
    hand_over(evening, EVENING, nevertheless="on")
    take(console_of_folder)
    assert len(reads(console_of_folder).loads(10)) == 3
    delivered.write_bytes(noon)
    take(console_of_folder)
    assert [item.kind for item in reads(console_of_folder).open_items()] == ["held"]
    assert len(reads(console_of_folder).loads(10)) == 3


def test_new_shops_have_the_names_that_the_file_has_for_them(alice: Operator) -> None:
    address = brought(alice, ("asked.csv", ASKED))
    send(alice, f"{address}/answers", **{"answer:net": "Subtotal + VAT + Tip"})
    settled(alice, address, "reading")
    facts = {"other:timezone": "Asia/Bangkok", "other:franchise": "g", "other:closing": "03:00"}
    send(alice, f"{address}/answers", **facts)
    assert settled(alice, address, "reading")["state"] == "checked"
    totals = alice.page(address).partition("Totals per day and shop")[2]
    assert "Old Town" in totals
    assert "old-town" not in totals


def test_the_page_shows_how_many_rows_bills_are_made_of_and_how_much_is_compared(
    console: RunningConsole, alice: Operator
) -> None:
    address = brought(alice, ("receipts.csv", LOYVERSE.read_bytes()))
    found = console.app._imports.find(address.rpartition("/")[2])
    assert found is not None
    # As it is while a large file is read: nothing of it can be seen in a test that does not take a minute.
    found.stage = imports.ReadingFiles()
    found.rows, found.records, found.line = 40_000, 3_000, 10_000
    page = alice.page(address)
    assert '<progress max="100" value="25"' in page
    assert "10,000 of 40,000 rows" in page
    found.stage = imports.ReadingFiles(is_comparing=True)
    found.compared = 70
    assert '<progress max="100" value="70"' in alice.page(address)


def test_an_unknown_file_says_in_how_many_ways_it_was_read_so_far(
    console: RunningConsole, alice: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[str] = []
    read_form = converted_exports.read_form

    def looked_at(request: Any, limits: Any, on_wait: Any, on_reading: Any) -> Form:
        def look(readings: int) -> None:
            on_reading(readings)
            (brought_in,) = console.app._imports.all()
            pages.append(alice.page(f"/imports/{brought_in.import_id}"))

        return read_form(request, limits, on_wait=on_wait, on_reading=look)

    monkeypatch.setattr(import_steps, "read_form", looked_at)
    brought(alice, ("asked.csv", ASKED))
    assert "1 way to read it compared so far" in pages[0]
    assert f"{len(pages)} ways to read it compared so far" in pages[-1]


def test_the_latest_record_has_a_line_of_the_file(console: RunningConsole, alice: Operator, monkeypatch: Any) -> None:
    monkeypatch.setattr(converted_exports, "RECORDS_PER_CALL", 1)
    address = brought(alice, ("receipts.csv", LOYVERSE.read_bytes()))
    found = console.app._imports.find(address.rpartition("/")[2])
    assert found is not None
    assert 1 < found.line <= LOYVERSE.read_bytes().count(b"\n")
    send(alice, f"{address}/answers", **FACTS)
    assert settled(alice, address, "reading")["state"] == "checked"
    assert found.compared in range(101)


def without_commands(page: str) -> str:
    """Return the main part of a page, after checking that it advises nothing that only a command line has."""
    main = page.partition('<div id="page">')[2].partition("</main>")[0]
    # The commands that do the same are folded, and say so.
    text = re.sub("<details.*?</details>", "", main, flags=re.DOTALL)
    assert "<h1>" in text
    assert not COMMAND_WORDS.search(text), COMMAND_WORDS.findall(text)
    return text


def remembered(operator: Operator) -> None:
    """Bring in a file that nobody has answered for, and accept it, so that its answers are kept."""
    address = brought(operator, ("asked.csv", ASKED))
    send(operator, f"{address}/answers", **{"answer:net": "Subtotal + VAT + Tip"})
    settled(operator, address, "reading")
    send(operator, f"{address}/answers", **FACTS)
    assert settled(operator, address, "reading")["state"] == "checked"
    accept(operator, address)


REJECTED_ROWS = {
    "an amount that is none": (ASKED.replace(b"100.00,7.00", b"1oo.00,7.00"), "1oo.00"),
    "a word that may mean a void": (ASKED.replace(b"Cash,100.00", b"Cancelled,100.00"), "Cancelled"),
    "a number twice": (ASKED.replace(b"1002,", b"1001,"), "1001"),
    "a day without a time": (ASKED.replace(b"2026-11-13 12:04", b"2026-11-13"), "2026-11-13"),
    "the number of a spreadsheet": (ASKED.replace(b"2026-11-13 12:04", b"46339.5"), "46339.5"),
}


@pytest.fixture(scope="module")
def remembering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """An operator whose console has kept the answers about a file. Tests that share it load nothing."""
    with closing(RunningConsole(tmp_path_factory.mktemp("remembering"))) as running:
        operator = running.operator()
        remembered(operator)
        yield operator


@pytest.mark.parametrize(("content", "value"), [pytest.param(*row, id=name) for name, row in REJECTED_ROWS.items()])
def test_a_rejected_row_is_explained_without_commands(remembering: Operator, content: bytes, value: str) -> None:
    address = brought(remembering, ("asked.csv", content))
    assert remembering.json(f"{address}.json")["rejectedRows"]
    for language in ("en", "th"):
        page = remembering.page(address, **{"accept-language": language})
        assert f'lang="{language}"' in page
        assert value in without_commands(page)


def test_a_file_of_which_rows_are_rejected_can_be_answered_for_again(remembering: Operator) -> None:
    address = brought(remembering, ("asked.csv", ASKED.replace(b"Cash,100.00", b"Cancelled,100.00")))
    assert "Answer the questions again" in without_commands(remembering.page(address))
    send(remembering, f"{address}/answers", again="all")
    assert settled(remembering, address, "reading")["state"] == "asking"


def test_a_file_that_cannot_be_read_is_explained_without_commands(console: RunningConsole, alice: Operator) -> None:
    address = brought(alice, ("receipts.csv", LOYVERSE.read_bytes().replace(b"11/14/26 6:20", b"14/11/26 6:20")))
    found = alice.json(f"{address}.json")
    assert (found["state"], "--date-order" in found["problem"]) == ("failed", True)
    for language in ("en", "th"):
        assert 'name="again"' in without_commands(alice.page(address, **{"accept-language": language}))
    send(alice, f"{address}/answers", again="all")
    # Now it is read like a file of which nobody has said anything.
    assert settled(alice, address, "reading")["form"] is not None


COMMAND_WORDS = re.compile(
    r"--[a-z]|\bmapping|checks\.|dates\.[a-z]|file\.[a-z]|bill\.[a-z]|`counterfoil|\[\[?[a-z]+\]"
)


def test_the_console_has_words_of_its_own_for_what_the_importer_advises_at_a_command_line() -> None:
    sources = [*Path(checks.__file__).parent.rglob("*.py"), Path(load_run.__file__)]
    text = "\n".join(ast.unparse(ast.parse(path.read_text("utf-8"))) for path in sources)
    for advice, words in import_words.CONSOLE_WORDS.items():
        assert repr(advice) in text, f"no source has {advice}"
        assert not COMMAND_WORDS.search(words.replace("{mapping}", "")), words
        assert set(re.findall(r"{\w+}", words)) <= set(re.findall(r"{\w+}", advice))


# --- in Thai ---------------------------------------------------------------------------------


def test_a_thai_page_asks_about_a_file_in_thai(console: RunningConsole) -> None:
    somchai = console.operator("somchai", "th")
    address = brought(somchai, ("asked.csv", ASKED))
    page = somchai.page(address).partition("<main")[2]
    assert "ลูกค้าจ่ายเท่าไร รวมทิปแล้ว" in page
    assert "asked.csv: 3 แถว 8 คอลัมน์" in page
    assert 'lang="en"' not in page
    send(somchai, f"{address}/answers", **{"other:net": "Payment"})
    settled(somchai, address, "reading")
    assert "Payment ไม่ใช่คอลัมน์ยอดเงิน" in somchai.page(address)


def test_a_thai_page_says_why_a_workbook_cannot_be_read(console: RunningConsole) -> None:
    somchai = console.operator("somchai", "th")
    page = somchai.page(brought(somchai, ("broken.xlsx", b"PK\x03\x04" + bytes(200))))
    assert "ไฟล์ไม่ได้อยู่ในรูปแบบของไฟล์ Excel" in page
    assert 'lang="en">' not in page.partition("<main")[2]


def test_a_text_of_a_form_without_a_translation_is_marked_as_english_and_one_within_itself_ends() -> None:
    endless = FormText("a b", "{x} b", {"x": "a b"})
    form = Form(file="", columns=(), rows=(), questions=(), answers={}, texts=(endless,))
    assert str(form_text(Texts("th"), form, "<heading>")) == "&lt;heading&gt;"
    assert str(form_text(Texts("th"), form, "a b")) == '<span lang="en">a b</span>'
    assert str(form_text(Texts("en"), form, "a b")) == "a b"
    wordless = Form(file="", columns=(), rows=(), questions=(), answers={}, texts=(FormText("a", "{x}", {"x": "a"}),))
    assert str(form_text(Texts("th"), wordless, "a")) == "a"


def test_texts_of_a_form_that_contain_each_other_many_times_stay_short() -> None:
    names = [f"value_{number}" for number in range(8)]
    template = "".join(f"{{{name}}}" for name in names)
    texts = [FormText(f"text {depth}", template, dict.fromkeys(names, f"text {depth + 1}")) for depth in range(9)]
    form = Form(file="", columns=(), rows=(), questions=(), answers={}, texts=tuple(texts))
    assert len(form_text(Texts("th"), form, "text 0")) < 1_000
