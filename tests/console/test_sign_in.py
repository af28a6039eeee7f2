"""No page is shown without a session. A sign-in link works only once, and sessions end at sign-out or time out."""

import pytest

from console.conftest import InUse
from console.running_console import PAGES, SAME_ORIGIN, Operator, RunningConsole
from counterfoil.console.sign_in import link_key
from counterfoil.settings import SettingsError, load

# The default of console_idle_min.
IDLE_SEC = 30 * 60
PROXY = {"console_proxy": "127.0.0.1", "console_proxy_header": "X-Remote-User"}


def test_a_stranger_gets_no_page_and_no_data(shared: InUse) -> None:
    stranger = shared.console.stranger()
    for path in (*PAGES, "/reference"):
        answer = stranger.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in"), path
    for path in ("/today.json", "/keys.json", "/requests.csv", "/audit.csv", "/reference.json"):
        answer = stranger.get(path)
        assert (answer.status_code, answer.json()) == (401, {"error": "not_signed_in"}), path


def test_a_link_replaces_the_session_of_the_browser(console: RunningConsole, alice: Operator) -> None:
    thief = console.stranger()
    thief.client.cookies.update(dict(alice.client.cookies))
    assert "Signed in as alice" in alice.page("/sign-in")
    assert alice.sign_in(console.token("bob")).status_code == 303
    assert "Signed in as bob" in alice.page("/audit")
    assert thief.get("/audit").status_code == 303


def test_an_operator_who_opens_a_used_link_stays_signed_in(console: RunningConsole) -> None:
    token, browser = console.token("alice"), console.stranger()
    for _ in range(2):
        answer = browser.sign_in(token)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert "Signed in as alice" in browser.page("/audit")


def test_a_whole_link_can_be_pasted(console: RunningConsole) -> None:
    assert console.stranger().sign_in(f"  {console.url}/sign-in#{console.token()}\n").status_code == 303


def test_a_link_expires(console: RunningConsole) -> None:
    token = console.token(validity_ms=60_000)
    console.clock.advance(60)
    assert console.stranger().sign_in(token).status_code == 403


def test_a_changed_link_and_one_of_another_console_or_secret_are_refused(console: RunningConsole) -> None:
    token, other = console.token("alice"), console.token("mallory")
    signature = 22  # The first 16 bytes, without the bits that the next byte shares.
    forged_tokens = [token[:signature] + other[signature:], other[:signature] + token[signature:]]
    forged_tokens += [token[:-1], f"{token}=", f"{token}A", token[signature:], f"{token[:-4]}AAAA", "", "#", "x.y.z"]
    forged_tokens += [console.token(audience="127.0.0.1:1"), console.token(key=link_key(b"another"))]
    for forged in (*forged_tokens, f"{token[:-2]}กก"):
        assert console.stranger().sign_in(forged).status_code == 403


def test_a_page_that_refreshes_itself_does_not_keep_a_session_alive(console: RunningConsole, alice: Operator) -> None:
    refresh = {"x-background-refresh": "1"}
    for _ in range(3):
        assert alice.get("/requests", **refresh).status_code == 200
        console.clock.advance(IDLE_SEC // 3)
    assert alice.get("/requests", **refresh).status_code == 303
    assert alice.get("/requests").status_code == 303


@pytest.mark.parametrize("console", [PROXY], indirect=True)
def test_a_refresh_does_not_keep_the_session_of_a_proxy_alive(console: RunningConsole) -> None:
    browser = Operator(console, **{"x-remote-user": "dana"})
    browser.get("/audit")
    console.clock.advance(IDLE_SEC - 1)
    browser.get("/requests", **{"x-background-refresh": "1"})
    console.clock.advance(1)
    signed_in = [entry["act"] for entry in browser.json("/audit.json")["entries"]]
    assert signed_in == ["console_signed_in"] * 2


def test_a_form_that_is_sent_after_the_session_ended_changes_nothing(console: RunningConsole, alice: Operator) -> None:
    fields = alice.fill_in("/keys/new", "/keys/new", label="x", scope="shop:s", per_min="1", per_day="1")
    console.clock.advance(IDLE_SEC)
    answer = alice.send("/keys/new", fields)
    assert answer.status_code == 401
    assert "no longer signed in, and nothing was changed." in answer.text
    assert console.service.key_store.all() == []


def test_signing_out_ends_the_session_on_the_server(console: RunningConsole, alice: Operator) -> None:
    cookies = dict(alice.client.cookies)
    assert alice.send("/sign-out", {}).headers["location"] == "/sign-in?out=1"
    thief = console.stranger()
    thief.client.cookies.update(cookies)
    answer = thief.get("/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?out=1")
    assert "This device is not signed in any more." in thief.page("/sign-in?out=1")


def test_scripts_and_other_sites_cannot_use_the_cookie(console: RunningConsole) -> None:
    port = console.settings.console_port
    plain = console.stranger().sign_in(console.token()).headers["set-cookie"]
    assert plain.startswith(f"counterfoil-console-{port}=")
    assert "; HttpOnly; SameSite=Strict" in plain
    secure = console.stranger().sign_in(console.token(), origin=console.url.replace("http:", "https:"))
    cookie = secure.headers["set-cookie"]
    assert cookie.startswith(f"__Host-counterfoil-console-{port}=")
    assert cookie.endswith("; HttpOnly; SameSite=Strict; Secure")
    assert "Path=/;" in cookie
    assert "Domain" not in cookie


def test_a_guessed_session_is_not_accepted(console: RunningConsole, alice: Operator) -> None:
    name, value = next(iter(alice.client.cookies.items()))
    for guess in ("", "x", value[:-1], value + "x", value.upper()):
        thief = console.stranger()
        thief.client.cookies.set(name, guess)
        assert thief.get("/").status_code == 303


@pytest.mark.parametrize("console", [PROXY], indirect=True)
def test_the_proxy_names_the_operator_whose_sign_in_is_audited_once(console: RunningConsole) -> None:
    proxied, carol = console.stranger(), {"x-remote-user": "carol"}
    assert "Signed in as carol" in proxied.get("/audit", **carol).text
    entries = proxied.get("/audit.json", **carol).json()["entries"]
    assert [(entry["act"], entry["actor"]) for entry in entries] == [("console_signed_in", "carol")]
    assert proxied.get("/audit").status_code == 303
    assert proxied.get("/audit", **{"x-remote-user": ""}).status_code == 303
    two = [("x-remote-user", "carol"), ("x-remote-user", "mallory"), ("accept", "text/html")]
    assert proxied.client.get("/audit", headers=two).status_code == 400


@pytest.mark.parametrize("console", [{}, {**PROXY, "console_proxy": "192.0.2.7"}], indirect=True)
def test_the_header_of_a_proxy_is_ignored_from_another_address_or_without_the_settings(console: RunningConsole) -> None:
    assert console.stranger().get("/audit", **{"x-remote-user": "mallory"}).status_code == 303


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("console_proxy", "", "Set both"),
        ("console_proxy_header", "", "Set both"),
        ("console_proxy", "proxy.example", "console_proxy"),
        ("console_proxy_header", "X Y", "console_proxy_header"),
    ],
)
def test_a_proxy_needs_two_valid_settings(name: str, value: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load({setting: text for setting, text in {**PROXY, name: value}.items() if text}, {})


def test_the_language_is_that_of_the_browser_until_it_is_switched(console: RunningConsole) -> None:
    thai = console.operator("alice", "th-TH,th;q=0.9,en;q=0.8")
    assert '<html lang="th">' in thai.page("/audit")
    switched = thai.get("/language?to=en&back=/audit")
    assert switched.headers["location"] == "/audit"
    assert '<html lang="en">' in thai.page("/audit")
    assert '<html lang="th">' in console.stranger().get("/sign-in?lang=th").text


@pytest.mark.parametrize(
    ("back", "location"),
    [
        ("/requests?key=ก&error=a%20b", "/requests?key=%E0%B8%81&error=a%20b"),
        *((address, "/") for address in ("//evil.example", "https://evil.example", "/\\evil.example", "javascript:x")),
    ],
)
def test_switching_the_language_leads_to_any_page_but_never_to_another_site(
    alice: Operator, back: str, location: str
) -> None:
    answer = alice.client.get("/language", params={"to": "th", "back": back}, headers=SAME_ORIGIN)
    assert answer.headers["location"] == location
