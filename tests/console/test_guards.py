"""Cross-site requests can neither read the console nor change anything with an operator's session."""

import base64
import hashlib
import re

import httpx
import pytest

from console.conftest import InUse
from console.running_console import PAGE, SAME_ORIGIN, Operator, RunningConsole
from counterfoil.console.sign_in import own_name
from records import branch
from web.strict_html import StrictPage

PATHS = ("/", "/sign-in", "/console.css", "/keys.json", "/nowhere", "/reference")


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8002", "localhost.evil.example", "127.0.0.1.nip.io", "a.localhost"),
        *("x{own}", "{own}.example", "{own}.localhost", "www.{own}", ""),
    ],
)
def test_any_host_name_but_its_own_is_refused(shared: InUse, host: str) -> None:
    named = host.format(own=httpx.URL(shared.console.url).host)
    for path in ("/", "/sign-in", "/console.js", "/keys.json"):
        answer = shared.alice.get(path, host=named)
        assert answer.status_code == 421
        assert "alice" not in answer.text


@pytest.mark.parametrize("host", ["localhost", "localhost:9999", "127.0.0.1", "127.1.2.3", "[::1]:8002", "LOCALHOST."])
def test_names_that_other_users_of_the_machine_share_get_only_a_hint(alice: Operator, host: str) -> None:
    own_name = httpx.URL(alice.console.url).host
    for path in PATHS:
        answer = alice.get(path, host=host)
        assert answer.status_code == 421
        assert "counterfoil console link" in answer.text
        assert own_name not in answer.text + str(answer.headers)
    origin = {"host": host, "origin": f"http://{host}"}
    answer = alice.console.stranger().sign_in(alice.console.token(), **origin)
    assert answer.status_code == 421
    assert "set-cookie" not in answer.headers
    assert alice.send("/sign-out", {}, **origin).status_code == 421
    assert alice.get("/audit").status_code == 200


def test_a_browser_gets_a_refusal_as_a_page_that_needs_no_other_file(alice: Operator) -> None:
    wrong_name = alice.get("/keys", host="evil.example")
    foreign_form = alice.send("/sign-out", {}, **PAGE, origin="https://evil.example")
    for answer, status, has_link in ((wrong_name, 421, False), (foreign_form, 403, True)):
        assert answer.status_code == status
        assert StrictPage(answer.content).problems == []
        assert ('class="button"' in answer.text) is has_link
        assert "/console.css" not in answer.text
        (style,) = re.findall("<style>(.*)</style>", answer.text)
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in answer.headers["content-security-policy"]
    assert alice.client.get("/keys", headers={"host": "evil.example"}).headers["content-type"].startswith("text/plain")


def test_the_name_of_a_console_is_its_own_and_stays_the_same(console: RunningConsole) -> None:
    name = own_name(console.key, "127.0.0.1:8002")
    assert re.fullmatch(r"[a-z2-7]{20}\.localhost", name)
    assert name == own_name(console.key, "127.0.0.1:8002")
    assert name != own_name(console.key, "127.0.0.1:8003")
    assert name != own_name(b"another key", "127.0.0.1:8002")
    earlier = console.url
    console.restart()
    assert console.url == earlier
    assert console.operator().get("/audit", host=f"{httpx.URL(earlier).host.upper()}:9").status_code == 200


@pytest.mark.parametrize("console", [{"console_names": "localhost, console.example"}], indirect=True)
def test_a_name_in_the_settings_has_sessions_even_if_it_is_a_loopback_name(console: RunningConsole) -> None:
    for host in ("localhost:1", "console.example"):
        answer = console.stranger().sign_in(console.token(), host=host, origin=f"http://{host}")
        assert answer.status_code == 303
    assert console.stranger().get("/sign-in", host="127.0.0.1").status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://["},
        {"sec-fetch-site": "same-origin", "origin": "https://evil.example"},
        {"x-nothing": "at all"},
    ],
)
def test_a_form_from_another_site_changes_nothing(alice: Operator, headers: dict[str, str], shop: str) -> None:
    scope = f"shop:{shop}"
    fields = alice.fill_in("/keys/new", "/keys/new", label="x", scope=scope, per_min="1", per_day="1")
    assert alice.send("/keys/new", fields, **headers).status_code == 403
    assert alice.console.service.key_store.all() == []
    assert alice.send("/keys/new", fields).status_code == 200


def test_a_form_needs_its_type_and_the_origin_of_the_console(console: RunningConsole, alice: Operator) -> None:
    answer = alice.client.post("/sign-out", content=b"{}", headers={"content-type": "text/plain", **SAME_ORIGIN})
    assert answer.status_code == 415
    assert alice.send("/sign-out", {}, origin=console.url).status_code == 303


def test_another_site_may_link_to_a_page_but_not_load_it(shared: InUse) -> None:
    linked = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    loaded = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert shared.alice.client.get("/keys", headers=linked).status_code == 200
    for path in ("/keys", "/keys.json", "/console.js"):
        assert shared.alice.client.get(path, headers=loaded).status_code == 403


@pytest.mark.parametrize("path", PATHS)
def test_every_response_has_the_headers_that_protect_it(shared: InUse, path: str) -> None:
    for browser in (shared.alice, shared.console.stranger()):
        headers = browser.get(path).headers
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_other_methods_are_refused(shared: InUse, method: str) -> None:
    assert shared.alice.client.request(method, "/keys").status_code == 405


def test_a_large_body_is_refused_even_if_its_length_is_not_announced(alice: Operator) -> None:
    for content in (b"x" * 100_000, iter([b"x" * 50_000, b"x" * 50_000])):
        assert alice.client.post("/sign-in", content=content, headers=SAME_ORIGIN).status_code == 413


def test_cookies_of_the_console_do_not_sign_in_to_the_api(console: RunningConsole, alice: Operator) -> None:
    console.service.load(branch())
    cookie = "; ".join(f"{name}={value}" for name, value in alice.client.cookies.items())
    assert cookie
    assert console.service.error("shops", None, headers={"cookie": cookie}) == "invalid_key"
