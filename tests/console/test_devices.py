"""A link signs one device in. It stays signed in over restarts until it is revoked or expires, within its role."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from console.running_console import SAME_ORIGIN, Operator, RunningConsole
from counterfoil import bootstrap, devices
from counterfoil.console.pages.key import ACTIONS as KEY_ACTIONS
from counterfoil.console.routes import ACTIONS, PAGES
from counterfoil.domain.audit import Actor
from counterfoil.domain.open_items import OpenItem
from records import base, bill, branch, member
from running_service import backend_settings
from waiting import until

DAY_SEC = 86_400
LOYVERSE = Path(__file__).parents[2] / "docs" / "examples" / "loyverse-receipts.csv"
SOMEBODY = Actor("bob", "cli", "back-office")
# Personal data that a rejected line contains.
TELEPHONE = "0800000000"


@pytest.fixture(params=["sqlite", "postgres"])
def console(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RunningConsole]:
    kind, options = request.param if isinstance(request.param, tuple) else (request.param, {})
    with backend_settings(kind) as settings, closing(RunningConsole(tmp_path, **settings, **options)) as running:
        yield running


EMBEDDED = pytest.mark.parametrize("console", ["sqlite"], indirect=True)


@contextmanager
def without_keys(console: RunningConsole) -> Iterator[None]:
    """Take the file of keys and devices away for the duration of the block."""
    keys = console.settings.store / "keys.sqlite3"
    away = keys.rename(keys.with_name("away"))
    yield
    away.rename(keys)


def revoke(console: RunningConsole, device_id: str) -> None:
    devices.revoke(bootstrap.store(console.settings).devices(), device_id, console.clock.now_ms(), SOMEBODY)


def is_signed_in(browser: Operator) -> bool:
    return browser.get("/audit").status_code == 200


# --- signing in and out -----------------------------------------------------------


def test_a_link_works_once_also_after_a_restart_of_the_console(console: RunningConsole) -> None:
    device_id, token = console.linked("kitchen phone", "reader", 90)
    phone = console.stranger()
    assert phone.sign_in(token).status_code == 303
    assert console.stranger().sign_in(token).status_code == 403
    (row,) = phone.json("/devices.json")["devices"]
    found = (row["deviceId"], row["name"], row["role"], row["state"])
    assert found == (device_id, "kitchen phone", "reader", "signed_in")
    _, unused = console.linked("laptop")
    console.clock.advance(60)
    console.restart()
    assert is_signed_in(phone)
    assert console.stranger().sign_in(token).status_code == 403
    assert console.stranger().sign_in(unused).status_code == 303


def test_an_operator_revokes_a_device_or_all_others_in_the_console(console: RunningConsole) -> None:
    phone, laptop = console.device("kitchen phone", "reader", 90), console.device("laptop")
    path = f"/devices/{phone.device_id}/revoke"
    assert path in laptop.page("/devices")
    assert laptop.send(path, {}).status_code == 200
    assert not is_signed_in(phone)
    tablet, (_, unused) = console.device("tablet"), console.linked("watch")
    assert laptop.send("/devices/revoke-all", {}).status_code == 200
    assert not is_signed_in(tablet)
    assert console.stranger().sign_in(unused).status_code == 403
    assert is_signed_in(laptop)
    assert laptop.send("/devices/0123456789/revoke", {}).status_code == 404


def test_a_device_with_days_stays_signed_in_until_they_are_over(console: RunningConsole) -> None:
    phone = console.device("kitchen phone", "reader", 30)
    for _ in range(3):
        console.clock.advance(10 * DAY_SEC - 1)
        assert is_signed_in(phone)
    console.clock.advance(3)
    assert not is_signed_in(phone)


def test_a_device_with_days_is_signed_out_if_it_is_not_used(console: RunningConsole) -> None:
    phone = console.device("kitchen phone", "reader", 90)
    console.clock.advance(13 * DAY_SEC)
    assert is_signed_in(phone)
    console.restart()
    console.clock.advance(14 * DAY_SEC)
    assert not is_signed_in(phone)


@pytest.mark.parametrize(
    "console",
    [("sqlite", {"console_idle_min": 5, "console_max_hours": 1, "console_max_days": 2})],
    ids=["short"],
    indirect=True,
)
def test_the_lifetimes_are_settings(console: RunningConsole) -> None:
    phone, laptop = console.device("kitchen phone", "reader", 90), console.device("laptop")
    for _ in range(15):
        console.clock.advance(4 * 60)
        laptop.get("/audit")
    assert not is_signed_in(laptop)
    tablet = console.device("tablet")
    console.clock.advance(5 * 60)
    assert not is_signed_in(tablet)
    console.clock.advance(DAY_SEC)
    assert is_signed_in(phone)
    console.clock.advance(DAY_SEC)
    assert not is_signed_in(phone)


def test_the_last_use_is_stored_once_a_minute_at_most(console: RunningConsole) -> None:
    phone = console.device("kitchen phone", "reader", 90)
    started = console.clock.now_ms()

    def stored() -> int | None:
        (device,) = bootstrap.store(console.settings).reads().devices()
        return device.last_used_at and device.last_used_at - started

    console.clock.advance(59)
    phone.get("/audit")
    assert stored() == 0
    console.clock.advance(1)
    phone.get("/audit", **{"x-background-refresh": "1"})
    assert stored() == 0
    phone.get("/audit")
    assert stored() == 60_000


def test_links_sign_ins_sign_outs_and_revocations_are_audited(console: RunningConsole) -> None:
    phone, laptop = console.device("kitchen phone", "reader", 90), console.device("laptop")
    revoke(console, phone.device_id)
    laptop.send("/sign-out", {})
    entries = bootstrap.store(console.settings).reads().audit(10)
    assert [(entry.act, entry.actor.name, entry.actor.host) for entry in reversed(entries)] == [
        ("console_link_made", "alice", "back-office"),
        ("console_signed_in", "kitchen phone", f"device {phone.device_id}"),
        ("console_link_made", "alice", "back-office"),
        ("console_signed_in", "laptop", f"device {laptop.device_id}"),
        ("device_revoked", "bob", "back-office"),
        ("console_signed_out", "laptop", f"device {laptop.device_id}"),
    ]


@EMBEDDED
def test_the_store_contains_no_token(console: RunningConsole) -> None:
    _, link = console.linked("kitchen phone")
    phone = console.stranger()
    phone.sign_in(link)
    cookie = next(iter(phone.client.cookies.values()))
    stored = b"".join(file.read_bytes() for file in console.settings.store.rglob("*") if file.is_file())
    assert b"kitchen phone" in stored
    assert cookie.encode() not in stored
    assert link.encode() not in stored


def test_devices_that_ended_long_ago_are_forgotten(console: RunningConsole) -> None:
    console.device("old phone", "reader", 30)
    console.clock.advance(91 * DAY_SEC)
    phone = console.device("new phone")
    assert [row["name"] for row in phone.json("/devices.json")["devices"]] == ["new phone"]


# --- while the store cannot be used -----------------------------------------------


@EMBEDDED
def test_a_device_can_sign_in_while_the_store_is_down_and_is_recorded_later(console: RunningConsole) -> None:
    laptop, (_, older) = console.device("laptop"), console.linked("older")
    console.clock.advance(60)
    console.restart()
    assert is_signed_in(laptop)
    with without_keys(console):
        token = console.token("tablet")
        tablet = console.stranger()
        assert tablet.sign_in(token).status_code == 303
        assert console.stranger().sign_in(token).status_code == 403
        # The store might know that this link was used before the console was restarted.
        assert console.stranger().sign_in(older).status_code == 403
        assert tablet.get("/store").status_code == 200
    assert is_signed_in(tablet)
    assert {row["name"] for row in laptop.json("/devices.json")["devices"]} == {"laptop", "tablet", "older"}
    assert console.stranger().sign_in(token).status_code == 403


@EMBEDDED
def test_a_device_that_cannot_be_checked_is_trusted_for_seconds_only(console: RunningConsole) -> None:
    laptop = console.device("laptop")
    assert is_signed_in(laptop)
    with without_keys(console):
        console.clock.advance(4)
        assert laptop.get("/store").status_code == 200
        console.clock.advance(1)
        assert laptop.get("/store").status_code == 303
    assert is_signed_in(laptop)


@EMBEDDED
def test_a_revoked_device_stays_out_while_the_store_is_down(console: RunningConsole) -> None:
    phone, laptop = console.device("kitchen phone", "reader", 90), console.device("laptop")
    assert is_signed_in(phone)
    revoke(console, phone.device_id)
    assert not is_signed_in(phone)
    assert is_signed_in(laptop)
    with without_keys(console):
        assert phone.get("/store").status_code == 303
        laptop.send("/sign-out", {})
    assert not is_signed_in(laptop)
    console.restart()
    assert not is_signed_in(laptop)


# --- roles ------------------------------------------------------------------------


@dataclass(frozen=True)
class FilledConsole:
    """A console of a store that has something for every action, and values for its addresses."""

    console: RunningConsole
    values: dict[str, str]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledConsole]:
    """A filled console that tests must leave as it is, because others use it too."""
    with (
        backend_settings(request.param) as settings,
        closing(RunningConsole(tmp_path_factory.mktemp("filled"), **settings)) as console,
    ):
        yield FilledConsole(console, fill(console))


def fill(console: RunningConsole) -> dict[str, str]:
    """Load something for every action, and return values for its addresses.

    There are a member, a bill, a shop without bills, a rejected line that contains a telephone number, a held delivery,
    a key, an unused link and a file that was brought in.
    """
    shop, empty_shop = branch(name="Riverside"), branch(name="Typing error")
    broken = b'{"kind":"bill","tel":"%s"}' % TELEPHONE.encode()
    console.service.load(shop, empty_shop, base(shop), member(shop), bill(shop, id="b-1"), broken)
    held = OpenItem(identity="1-late.ndjson", kind="held", files={"late.ndjson": 0}, path="/held/1-late.ndjson")
    console.service.ledger.add_items([held])
    key_id = console.service.key(shop=shop["id"], label="ERP", personal_data=True).split("_")[2]
    device_id, _ = console.linked("watch")
    waiting = OpenItem(identity="2-new.csv", kind="needs_answers", files={"new.csv": 0}, path="/quarantine/2-new.csv")
    console.service.ledger.add_items([waiting])
    values = {"key_id": key_id, "number": "1", "device_id": device_id, "operation": "listShops"}
    values |= {"shop_id": shop["id"], "empty_shop_id": empty_shop["id"], "day": "2026-01-01", "bill_id": "b-1"}
    return {**values, "import_id": brought_in(console)}


def brought_in(console: RunningConsole) -> str:
    """Bring in a file of a known till, answer for its shop, and return the ID of the import."""
    office = console.device("office")
    files = {"files": ("receipts.csv", LOYVERSE.read_bytes())}
    path = office.client.post("/imports", files=files, headers=SAME_ORIGIN).headers["location"]
    until(lambda: office.json(f"{path}.json")["state"] != "reading", "the file has been read")
    office.send(f"{path}/answers", {"other:franchise": "g", "other:closing": "04:00", "other:timezone": "Asia/Bangkok"})
    until(lambda: office.json(f"{path}.json")["state"] == "checked", "the totals are there")
    return str(path.rpartition("/")[2])


def address(pattern: str, values: dict[str, str]) -> str:
    """Return an address that matches the pattern of a route."""
    found = re.sub(r"\(\?P<(\w+)>[^)]*\)", lambda group: values[group[1]], pattern)
    assert re.fullmatch(pattern, found)
    return found


def content(console: RunningConsole) -> list[object]:
    reads = bootstrap.store(console.settings).reads()
    listed = [reads.keys(), reads.devices(), reads.audit(100), reads.loads(10), reads.rejects(1, 10)]
    return [*listed, reads.open_items()]


def test_a_reader_can_send_none_of_the_actions(filled: FilledConsole) -> None:
    reader = filled.console.device("kitchen phone", "reader", 90)
    before = content(filled.console)
    statuses = {pattern: reader.send(address(pattern, filled.values), {}).status_code for pattern in ACTIONS}
    assert statuses == dict.fromkeys(ACTIONS, 403)
    assert content(filled.console) == before


def test_a_reader_sees_every_page_without_forms_and_personal_data(filled: FilledConsole) -> None:
    reader = filled.console.device("kitchen phone", "reader", 90)
    refused = []
    for pattern, page in PAGES.items():
        path = address(pattern, filled.values)
        formats = ["", ".json", *([".csv"] if page.csv else [])]
        answers = [reader.get(f"{path}{suffix}") for suffix in formats]
        assert {answer.status_code for answer in answers} == {403 if page.role == "operator" else 200}
        refused += [pattern] if page.role == "operator" else []
        for answer in answers:
            assert TELEPHONE not in answer.text
            assert "cf_live_" not in answer.text
            forms = re.findall(r'<form[^>]*method="post"[^>]*action="([^"]*)"', answer.text)
            assert set(forms) <= {"/sign-out"}
    only_operators = ["/keys/new", "/shops/", "/imports", "/imports/", "/loads/", "/reference/try/"]
    assert [pattern.partition("(")[0] for pattern in refused] == only_operators
    path = f"/keys/{filled.values['key_id']}"
    for action in KEY_ACTIONS:
        shown = reader.page(f"{path}?tab={action}")
        assert f'action="{path}' not in shown
        assert f'href="{path}?tab={action}"' not in shown


def test_an_operator_sees_the_forms_that_a_reader_does_not(filled: FilledConsole) -> None:
    operator = filled.console.device("laptop")
    tabs = [f"/keys/{filled.values['key_id']}?tab={tab}" for tab in KEY_ACTIONS]
    paths = (
        "/keys",
        "/keys/new",
        *tabs,
        "/loads",
        "/loads/1",
        "/loads/1/undo",
        "/loads/items/2",
        "/devices",
        f"/shops/{filled.values['shop_id']}/settings?closing=04:00",
        f"/shops/{filled.values['empty_shop_id']}",
        "/imports",
        f"/imports/{filled.values['import_id']}",
        "/reference/try/listShops",
        "/find",
    )
    sent_to = re.findall(r'action="([^"#]*)', "".join(map(operator.page, paths)))
    missing = [pattern for pattern in ACTIONS if not any(re.fullmatch(pattern, path) for path in sent_to)]
    # This form is on the page of members that were loaded into a base without shops: see test_imports.py.
    assert [pattern.rpartition("/")[2] for pattern in missing] == ["base"]


# --- HTTPS ------------------------------------------------------------------------


@EMBEDDED
@pytest.mark.parametrize("protocol", ["https", "https, http", "HTTPS,http"])
def test_behind_a_tls_proxy_only_the_cookie_with_the_prefix_counts(console: RunningConsole, protocol: str) -> None:
    https = {"x-forwarded-proto": protocol}
    browser = console.stranger()
    cookie = browser.sign_in(console.token(), **SAME_ORIGIN, **https).headers["set-cookie"]
    name, _, value = cookie.partition(";")[0].partition("=")
    assert name == f"__Host-counterfoil-console-{console.settings.console_port}"
    assert cookie.endswith("; Secure")
    assert browser.get("/audit", **https, cookie=f"{name}={value}").status_code == 200
    # A plain cookie could have been set by whoever controls the network.
    plain = name.removeprefix("__Host-")
    assert browser.get("/audit", **https, cookie=f"{plain}={value}").status_code == 303


@EMBEDDED
def test_restored_keys_sign_every_device_out(console: RunningConsole, tmp_path: Path) -> None:
    phone = console.device("kitchen phone", "reader", 90)
    bootstrap.back_up(console.settings, tmp_path / "backup", with_secret=False)
    console.service.close()
    bootstrap.restore(console.settings, tmp_path / "backup", SOMEBODY, replace=True)
    assert not is_signed_in(phone)
    assert bootstrap.store(console.settings).reads().devices() == []
