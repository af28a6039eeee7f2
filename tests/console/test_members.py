"""What an operator sees of a customer who asks, and that what he enters for it stays nowhere."""

import json
import re
import shlex
from html import unescape
from pathlib import Path

import httpx
import pytest

from cli.command import Command
from console.running_console import Operator, RunningConsole
from counterfoil import bootstrap
from counterfoil.domain.forgetting import ForgottenMember, mark_of
from records import base, bill, branch, member
from running_service import SECRET

ID, TEL, EMAIL = "person-4711", "0891234567", "somchai@example.test"
DIFFERENT = {"tel": "0800000000", "email": None}


@pytest.fixture
def token(console: RunningConsole) -> str:
    """Load a member with two bills, and have a key read him. Return his token."""
    shop = branch(name="Riverside")
    known = member(shop, id=ID, tel=TEL, email=EMAIL)
    console.service.load(shop, base(shop), known, bill(shop, memberId=ID), bill(shop, memberId=ID))
    console.service.load(member(shop, **DIFFERENT))
    key = console.service.key(shop=shop["id"], label="ERP", personal_data=True)
    console.service.get("members", key, providerId=shop["providerId"])
    # Stopping the service writes the records of its requests.
    console.service.restart()
    return bootstrap.pseudonyms(console.settings).member_token(ID)


def look_up(operator: Operator, who: str) -> httpx.Response:
    return operator.send("/find/customer", operator.fill_in("/find", "/find/customer", who=who))


@pytest.mark.parametrize("entered", [ID, TEL, "+66 89-123-4567", EMAIL.upper(), "TOKEN"])
@pytest.mark.parametrize("language", ["en", "th"])
def test_an_operator_sees_what_is_known_of_a_customer_but_not_how_to_reach_him(
    console: RunningConsole, token: str, entered: str, language: str
) -> None:
    answer = look_up(console.operator("alice", language), token if entered == "TOKEN" else entered)
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    assert f"counterfoil members forget {token}" in answer.text
    assert "2025-03-01" in answer.text
    assert "2026-01-01" in answer.text
    assert "ERP" in answer.text
    for text in (ID, TEL, EMAIL, entered):
        assert text == "TOKEN" or text not in answer.text


@pytest.mark.parametrize("console", [{"backend": "postgres"}], indirect=True)
def test_a_customer_in_postgresql_is_found(alice: Operator, token: str) -> None:
    page = look_up(alice, TEL).text
    assert f"counterfoil members forget {token}" in page
    assert "ERP" in page


def test_the_command_on_the_page_shows_the_same_member(
    console: RunningConsole, alice: Operator, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERFOIL_SECRET", SECRET)
    page = look_up(alice, TEL).text
    (shown,) = re.findall(r'<code class="command">counterfoil (members forget [^<]+)</code>', page)
    words = [*shlex.split(unescape(shown)), "--check", "--json"]
    assert words[:3] == ["members", "forget", token]
    assert json.loads(Command(console.settings.store).bare(*words).stdout)["member"] == token


def test_a_look_up_leaves_nothing_of_what_was_entered(console: RunningConsole, alice: Operator, token: str) -> None:
    store = console.settings.store
    before = {path.name for path in files_with(store, b"unknown-person")}
    assert look_up(alice, "unknown-person").status_code == 404
    assert look_up(alice, token).status_code == 200
    assert {path.name for path in files_with(store, b"unknown-person")} == before == set()
    acts = [(entry["act"], entry["actor"], entry["detail"]) for entry in alice.json("/audit.json")["entries"][:2]]
    assert acts == [("member_looked_up", "alice", "1 member found"), ("member_looked_up", "alice", "0 members found")]


def files_with(folder: Path, text: bytes) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]


def test_members_with_the_same_phone_number_are_told_apart(console: RunningConsole, alice: Operator) -> None:
    shop = branch()
    first, second = member(shop, createdAt="2025-05-05T12:00:00+07:00"), member(shop)
    console.service.load(shop, base(shop), first, second)
    page = look_up(alice, first["tel"]).text
    assert page.count("counterfoil members forget m1_") == 2 * 2
    assert "2025-05-05" in page


@pytest.mark.parametrize("entered", ["", " ", "x" * 400])
def test_a_look_up_needs_something_to_look_for(alice: Operator, entered: str) -> None:
    assert alice.send("/find/customer", {"who": entered}).status_code == 422


@pytest.mark.parametrize("entered", ["nobody", "0", "\0", "%", "m1_", "@", "ไม่มี"])
def test_an_unknown_customer_is_not_found(console: RunningConsole, alice: Operator, token: str, entered: str) -> None:
    answer = look_up(alice, entered)
    assert (answer.status_code, "No member is known" in answer.text) == (404, True)


def test_a_reader_can_neither_see_nor_send_the_form(console: RunningConsole, token: str) -> None:
    reader = console.device("kitchen phone", "reader", 90)
    assert "/find/customer" not in reader.page("/find")
    answer = reader.send("/find/customer", {"who": TEL})
    assert (answer.status_code, token in answer.text) == (403, False)


def test_an_unfinished_forgetting_is_said(console: RunningConsole, alice: Operator, token: str) -> None:
    console.service.ledger.mark_forgotten([ForgottenMember(mark=mark_of(token), at=1)])
    assert "begun and not finished" in look_up(alice, ID).text
