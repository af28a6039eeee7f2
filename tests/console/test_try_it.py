"""An operator tries requests of the API in the console, with a key that is issued for it and ends soon."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from console.running_console import Operator, RunningConsole
from counterfoil.checks.overview import overview
from counterfoil.checks.running import CONNECTION_REFUSED
from records import base, bills, branch, member
from running_service import free_port

LIST_SHOPS = "/reference/try/listShops"
QUARTER_HOUR_SEC = 15 * 60


@pytest.fixture
def console(tmp_path: Path) -> Iterator[RunningConsole]:
    """A console beside a service that listens on the port of the settings."""
    with closing(RunningConsole(tmp_path, port=free_port())) as running:
        running.service.port = running.settings.port
        yield running


@pytest.fixture
def tried(console: RunningConsole, shop: str) -> str:
    """Load a shop and let the service listen; return the scope of the shop."""
    assert console.service.server.port == console.settings.port
    return f"shop:{shop}"


def sent(alice: Operator, path: str = LIST_SHOPS, **entered: str) -> httpx.Response:
    """Fill in and send the form of an operation."""
    return alice.send(path, alice.fill_in(path, path, **entered))


def key_ids(alice: Operator) -> list[str]:
    return [row["key"]["keyId"] for row in alice.json("/keys.json?show=try_it")["keys"]]


def test_a_request_is_sent_with_a_key_of_its_own_that_is_audited(
    console: RunningConsole, alice: Operator, tried: str
) -> None:
    answer = sent(alice, scope=tried)
    assert answer.status_code == 200
    assert "Riverside" in answer.text
    assert "cf_live_" not in answer.text
    (key,) = console.service.key_store.all()
    assert (key.label, key.personal_data, key.messaging_lookup) == ("try it", False, False)
    assert key.revokes_at == console.clock.now_ms() + QUARTER_HOUR_SEC * 1000
    entry = alice.json("/audit.json")["entries"][0]
    assert [entry[name] for name in ("act", "actor", "via", "keyId")] == ["key_issued", "alice", "console", key.key_id]


def test_the_key_is_used_again_until_it_ends(console: RunningConsole, alice: Operator, tried: str) -> None:
    for _ in range(2):
        sent(alice, scope=tried)
    (first,) = key_ids(alice)
    console.clock.advance(QUARTER_HOUR_SEC)
    sent(alice, scope=tried)
    assert set(key_ids(alice)) > {first}


def test_the_key_is_listed_only_on_a_card_of_its_own(console: RunningConsole, alice: Operator, tried: str) -> None:
    sent(alice, scope=tried)
    # Stopping the service writes the records of its requests.
    console.service.restart()
    for after_sec in (0, QUARTER_HOUR_SEC):
        console.clock.advance(after_sec)
        assert {name: count for name, count in alice.json("/keys.json")["counts"].items() if count} == {"try_it": 1}
        assert alice.json("/today.json")["keys"] == []
        assert overview(console.settings, console.clock.now_ms()).store.keys == []


def test_another_scope_gets_another_key(console: RunningConsole, alice: Operator, tried: str) -> None:
    other = branch(name="Hillside", franchiseId="noodles")
    console.service.load(other)
    for scope in (tried, "franchise:noodles"):
        shown = sent(alice, scope=scope).text
    assert len(key_ids(alice)) == 2
    assert "Hillside" in shown[shown.index('id="answer"') :]


def test_parameters_are_sent_and_an_error_of_the_api_is_shown(alice: Operator, tried: str) -> None:
    entered = {"scope": tried, "shopId": "elsewhere", "updatedSince": "1970-01-01T00:00:00Z"}
    shown = sent(alice, "/reference/try/listTransactions", **entered).text
    assert "shopId=elsewhere" in shown
    assert "shop_not_in_scope" in shown


def test_no_telephone_number_is_shown(console: RunningConsole, alice: Operator) -> None:
    shop = branch(name="Riverside")
    person = member(shop, tel="0800000000")
    console.service.load(shop, base(shop), person, *bills(shop, 1))
    assert console.service.server.port == console.settings.port
    entered = {"scope": f"shop:{shop['id']}", "providerId": str(shop["providerId"])}
    shown = sent(alice, "/reference/try/listMembers", **entered).text
    assert "points" in shown[shown.index('id="answer"') :]
    assert "0800000000" not in shown


def test_a_service_that_does_not_answer_is_named(console: RunningConsole, alice: Operator, shop: str) -> None:
    shown = sent(alice, scope=f"shop:{shop}").text
    assert f":{console.settings.port}" in shown
    assert str(CONNECTION_REFUSED) in shown


def test_a_scope_must_be_chosen(console: RunningConsole, alice: Operator, tried: str) -> None:
    answer = sent(alice, scope="")
    assert answer.status_code == 422
    # The problem is shown at the field, which has the focus.
    assert re.search('<select id="field-scope"[^>]* aria-invalid="true" autofocus>', answer.text)
    assert console.service.key_store.all() == []


def test_only_an_operator_is_offered_to_try_requests(console: RunningConsole, alice: Operator) -> None:
    reader = console.device("kitchen phone", "reader", 90)
    assert f'href="{LIST_SHOPS}"' in alice.get("/reference").text
    assert LIST_SHOPS not in reader.get("/reference").text
    assert reader.get(LIST_SHOPS).status_code == 403
    assert alice.get("/reference/try/nothing").status_code == 404
