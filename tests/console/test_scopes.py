"""Pages show names beside IDs, and the commands and addresses on them apply to this console."""

import shlex
from html import unescape

import pytest

from console.running_console import Operator, RunningConsole
from counterfoil.demo.history import ERRORS_OF_ROUTES
from counterfoil.http.openapi.operations import OPERATIONS
from counterfoil.settings import SettingsError, load
from records import branch

FIRST_CALL = '"Authorization: Bearer $(cat counterfoil-key)" '


def key_id_of(alice: Operator) -> str:
    (row,) = alice.json("/keys.json")["keys"]
    return str(row["key"]["keyId"])


@pytest.mark.parametrize("language", ["en", "th"])
def test_the_name_of_the_shop_is_beside_the_id_of_a_scope(console: RunningConsole, language: str) -> None:
    shop = branch(name="Riverside")
    console.service.load(shop)
    alice = console.operator("alice", language)
    word = {"en": "Shop", "th": "ร้าน"}[language]
    named = f'{word} <a href="/shops/{shop["id"]}" title="{shop["id"]}">Riverside</a>'
    label = f"{named} <code>{shop['id']}</code>"
    assert label in alice.issue(f"shop:{shop['id']}").text
    assert f"{named}<" in alice.page("/keys")
    path = f"/keys/{key_id_of(alice)}"
    assert label in alice.page(path)
    for shown in (f"{path}?tab=audit", "/audit"):
        assert f"{word} Riverside ({shop['id']})" in alice.page(shown)


def test_a_franchise_is_listed_with_the_number_of_its_shops_and_their_names_or_what_these_share(
    console: RunningConsole, alice: Operator
) -> None:
    noodles = [branch(name=name, franchiseId="noodles") for name in ("Ari", "Bang Rak", "Chatuchak")]
    coffee = [branch(name=f"Blue House · {name}", franchiseId="coffee") for name in ("Ari", "Salaya")]
    console.service.load(*noodles, *coffee)
    assert ">Ari, Bang Rak, …, with 3 shops (noodles)<" in alice.page("/keys/new")
    for franchise in ("noodles", "coffee"):
        assert alice.issue(f"franchise:{franchise}").status_code == 200
    assert 'Franchise <span title="noodles">Ari, Bang Rak, …, with 3 shops</span>' in alice.page("/keys")
    for path in ("/keys", "/shops"):
        assert "Blue House, with 2 shops<" in alice.page(path)


def test_permissions_in_the_audit_are_translated(console: RunningConsole, shop: str) -> None:
    alice = console.operator("alice", "th")
    alice.issue(f"shop:{shop}", personal_data="on", messaging_lookup="on")
    page = alice.page("/audit")
    assert "สิทธิ์: ข้อมูลส่วนบุคคล, ค้นหาจากบัญชีแชต" in page
    assert "messaging-lookup" not in page


def test_a_placeholder_in_the_first_call_is_called_a_placeholder(alice: Operator, shop: str) -> None:
    page = alice.issue(f"shop:{shop}").text
    assert f"{FIRST_CALL}https://api.example.com/ext/v1/shops" in unescape(page)
    assert "api.example.com is a placeholder." in page


@pytest.mark.parametrize("console", [{"api_url": "https://api.noodles.example/ext/v1/"}], indirect=True)
def test_the_first_call_uses_the_address_that_integrators_use(console: RunningConsole, shop: str) -> None:
    alice = console.operator()
    page = alice.issue(f"shop:{shop}").text
    assert f"{FIRST_CALL}https://api.noodles.example/ext/v1/shops" in unescape(page)
    assert "is a placeholder" not in page
    assert "https://api.noodles.example/ext/v1" in alice.get("/reference").text


@pytest.mark.parametrize("value", ["api.example.com", "ftp://api.example.com", "https://a.example/'; rm -r x", "x"])
def test_an_api_url_that_is_not_a_plain_url_is_refused(value: str) -> None:
    with pytest.raises(SettingsError, match="api_url must be a URL"):
        load({"api_url": value}, {})


def test_the_sign_in_page_shows_the_command_for_this_console(console: RunningConsole) -> None:
    settings = console.settings
    words = ["counterfoil", "console", "link", "--store", str(settings.store)]
    command = shlex.join([*words, "--console-port", str(settings.console_port)])
    assert f'<code class="command">{command}</code>' in console.stranger().page("/sign-in")


@pytest.mark.parametrize(
    ("console", "headers"),
    [
        *(({}, {header: "for=192.0.2.1"}) for header in ("x-forwarded-for", "forwarded", "via")),
        ({"console_names": "console.example.com"}, {}),
    ],
    indirect=["console"],
)
def test_the_sign_in_page_does_not_name_the_store_behind_a_proxy_or_to_other_machines(
    console: RunningConsole, headers: dict[str, str]
) -> None:
    page = console.stranger().page("/sign-in", **headers)
    assert '<code class="command">counterfoil console link</code>' in page
    assert str(console.settings.store) not in page


def test_the_command_of_a_page_has_the_filter_of_the_page_or_says_that_it_has_none(alice: Operator) -> None:
    page = alice.page("/keys")
    assert "The same data on the command line:" in page
    assert "counterfoil keys list --active</code>" in page
    assert "counterfoil usage</code>" in page
    page = alice.page("/keys?show=never_used")
    assert "All keys on the command line, without this filter:" in page
    assert "counterfoil keys list</code>" in page
    assert "The same data on the command line:" not in alice.page("/keys/new")


def test_a_load_whose_lines_were_rejected_is_a_warning(console: RunningConsole, alice: Operator) -> None:
    console.service.load(branch(), {"kind": "bill", "id": "b_1"})
    console.service.load({"kind": "bill", "id": "b_2"})
    page = alice.page("/loads")
    assert '<span class="badge bad">all lines rejected</span>' in page
    assert '<span class="badge warn">finished, lines rejected</span>' in page
    assert page.index("<h2>Open items</h2>") < page.index("<h2>Latest loads</h2>")
    assert page.index("<h2>Latest loads</h2>") < page.index("<h2>Rejected lines by reason</h2>")
    assert "counterfoil loads open</code>" in page
    assert "counterfoil loads 2</code>" in alice.page("/loads/2")


def test_a_warning_about_rejected_lines_leads_to_that_load(console: RunningConsole, alice: Operator) -> None:
    assert alice.get("/loads/latest").headers["location"] == "/loads"
    console.service.load(branch())
    console.service.load({"kind": "bill", "id": "b_1"})
    assert 'href="/loads/latest"' in alice.page("/")
    assert alice.get("/loads/latest").headers["location"] == "/loads/2"


def test_a_range_without_requests_has_no_charts(console: RunningConsole, alice: Operator, shop: str) -> None:
    used, unused = (console.service.key(shop=shop) for _ in range(2))
    assert "<figure" not in alice.page(f"/keys/{unused.split('_')[2]}")
    console.service.get("shops", used)
    console.service.restart()
    path = f"/keys/{used.split('_')[2]}"
    assert "<figure" in alice.page(path)
    console.clock.advance(60 * 86_400)
    bob = console.operator("bob")
    assert "<figure" not in bob.page(path)
    assert "<figure" in bob.page(f"{path}?range=90d")
    assert len(bob.json(f"{path}.json")["days"]) == 400


def test_the_demo_invents_only_errors_that_a_route_can_return() -> None:
    documented = {operation.path: {problem.code for problem in operation.refusals} for operation in OPERATIONS}
    for route, problems in ERRORS_OF_ROUTES.items():
        assert {problem.code for problem in problems} <= documented[route]
