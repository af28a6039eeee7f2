"""Keys are issued, changed, rotated and revoked in the console, and every change is audited."""

import re

import httpx
import pytest

from cli.command import Command
from console.running_console import Operator, RunningConsole, revealed
from counterfoil import key_issuing
from counterfoil.console.pages.key import ACTIONS
from counterfoil.console.pages.keys import SHOWN
from counterfoil.domain.audit import Actor
from counterfoil.program.clock import SystemClock
from records import branch

ALICE, BOB = Actor("alice", "console", "back-office"), Actor("bob", "cli", "back-office")


@pytest.fixture
def key_id(console: RunningConsole, shop: str) -> str:
    return console.service.key(shop=shop, label="Warehouse").split("_")[2]


def message(answer: httpx.Response) -> str:
    """Return the text of the first notice on a page."""
    found = re.search(r'class="notice[^"]*"[^>]*>(.*?)</', answer.text, re.DOTALL)
    assert found, answer.text
    return found[1]


def test_a_new_key_works_and_is_audited(console: RunningConsole, alice: Operator, shop: str) -> None:
    answer = alice.issue(f"shop:{shop}", label="ERP of head office", personal_data="on")
    key = revealed(answer.text)
    assert answer.status_code == 200
    assert key
    assert answer.headers["cache-control"] == "no-store"
    assert console.service.data("shops", key)[0]["shopId"] == shop
    (stored,) = console.service.key_store.all()
    assert (stored.label, stored.per_day, stored.personal_data) == ("ERP of head office", 1000, True)
    entry = alice.json("/audit.json")["entries"][0]
    shown = [entry[name] for name in ("act", "actor", "host", "via", "keyId")]
    (device,) = alice.json("/devices.json")["devices"]
    assert shown == ["key_issued", "alice", f"device {device['deviceId']}", "console", stored.key_id]


def test_a_new_key_is_shown_only_once_and_neither_logged_nor_stored(
    console: RunningConsole, alice: Operator, shop: str, capfd: pytest.CaptureFixture[str]
) -> None:
    fields = alice.fill_in("/keys/new", "/keys/new", label="ERP", scope=f"shop:{shop}", per_min="60", per_day="1000")
    key = revealed(alice.send("/keys/new", fields).text)
    assert key
    again = alice.send("/keys/new", fields)
    assert again.status_code == 409
    assert revealed(again.text) is None
    (stored,) = console.service.key_store.all()
    assert f'href="/keys/{stored.key_id}"' in again.text
    secret = key.split("_")[3]
    for path in ("/", "/keys", f"/keys/{stored.key_id}", "/audit", "/keys.json", "/audit.csv", "/store"):
        assert secret not in alice.get(path).text
    written = capfd.readouterr()
    assert secret not in written.out + written.err
    files = [file.read_bytes() for file in console.settings.store.rglob("*") if file.is_file()]
    assert [content for content in files if secret.encode() in content] == []


def test_the_form_of_another_session_is_refused(console: RunningConsole, alice: Operator, shop: str) -> None:
    fields = alice.fill_in("/keys/new", "/keys/new", label="x", scope=f"shop:{shop}", per_min="1", per_day="1")
    answer = console.operator("bob").send("/keys/new", fields)
    assert answer.status_code == 409
    assert "does not belong to your session" in answer.text
    assert console.service.key_store.all() == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"scope": ""}, "Choose a shop or a franchise."),
        ({"scope": "shop:"}, "Choose a shop or a franchise."),
        ({"scope": "planet:mars"}, "Choose a shop or a franchise."),
        ({"label": "  "}, "Enter a label"),
        ({"per_min": "0"}, "from 1 to 1,000,000,000"),
        ({"per_min": "9" * 5000}, "from 1 to 1,000,000,000"),
        ({"per_day": "1e3"}, "from 1 to 1,000,000,000"),
        ({"label": "x" * 201}, "must not be longer than 200 characters"),
    ],
)
def test_a_mistake_is_explained_and_can_be_corrected(
    console: RunningConsole, alice: Operator, shop: str, changed: dict[str, str], said: str
) -> None:
    answer = alice.issue(**{"scope": f"shop:{shop}", **changed})
    assert answer.status_code == 422
    assert said in answer.text
    assert console.service.key_store.all() == []
    hidden = alice.hidden(answer.text, "/keys/new")
    corrected = {**hidden, "label": "ERP", "scope": f"shop:{shop}", "per_min": "60", "per_day": "1000"}
    assert alice.send("/keys/new", corrected).status_code == 200


def test_a_key_can_be_issued_for_a_shop_that_is_not_loaded_yet(console: RunningConsole, alice: Operator) -> None:
    answer = alice.issue("other", other_kind="franchise", other_id="fr-later")
    assert "fr-later is not loaded yet" in answer.text
    (stored,) = console.service.key_store.all()
    assert (stored.scope.kind, stored.scope.id) == ("franchise", "fr-later")


def test_scripts_in_labels_and_shop_names_are_shown_as_text(console: RunningConsole, alice: Operator) -> None:
    attack = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
    loaded = branch(name=attack, franchiseId=attack)
    console.service.load(loaded)
    console.service.key(franchise=attack, label=attack, personal_data=True)
    (key,) = console.service.key_store.all()
    paths = ("/", "/keys", "/keys/new", f"/keys/{key.key_id}", "/shops", "/audit", "/requests")
    for path in (*paths, f"/requests?request={attack}"):
        page = alice.page(path)
        assert "<script>alert" not in page
        assert "<img" not in page
    assert "&lt;script&gt;" in alice.page("/keys")


def test_limits_and_permissions_are_changed(console: RunningConsole, alice: Operator, key_id: str) -> None:
    answer = alice.act(key_id, "change", label="New", per_min="7", per_day="70", messaging_lookup="on")
    assert message(answer).startswith("The change is saved.")
    changed = key_issuing.key_in(console.service.key_store.all(), key_id)
    assert (changed.label, changed.per_min, changed.per_day, changed.messaging_lookup) == ("New", 7, 70, True)
    assert alice.json(f"/audit.json?key={key_id}")["entries"][0]["via"] == "console"


def test_a_change_is_refused_if_the_command_line_changed_the_key_first(alice: Operator, key_id: str) -> None:
    fields = alice.form_of(key_id, "change", label="Alice", per_min="1", per_day="1")
    key_store = alice.console.service.key_store
    key_issuing.update(key_store, key_id, key_issuing.KeyChanges(per_day=77), alice.console.clock.now_ms(), BOB)
    refused = alice.send(f"/keys/{key_id}/change", fields)
    assert refused.status_code == 409
    said = message(refused)
    assert said.startswith("This key was changed in the meantime")
    assert said.endswith("Latest change: key changed by bob (command line), requests per day: 10,000 → 77.")
    assert key_issuing.key_in(key_store.all(), key_id).per_day == 77


def test_a_change_is_refused_if_the_scheduled_revocation_came_into_effect_first(
    console: RunningConsole, key_id: str
) -> None:
    somchai = console.operator("somchai", "th")
    key_store, now = console.service.key_store, console.clock.now_ms()
    key_issuing.schedule_revocation(key_store, key_id, now + 5_000, now, BOB)
    fields = somchai.form_of(key_id, "change", label="Somchai", per_min="1", per_day="1")
    console.clock.advance(10)
    refused = somchai.send(f"/keys/{key_id}/change", fields)
    assert refused.status_code == 409
    assert f"คีย์ {key_id} ถูกเพิกถอนแล้ว จึงเปลี่ยนไม่ได้ กรุณาออกคีย์ใหม่" in refused.text
    assert key_issuing.key_in(key_store.all(), key_id).label != "Somchai"


def test_the_command_line_replaces_a_recent_value_of_somebody_else_only_on_request(
    console: RunningConsole, key_id: str
) -> None:
    key_store, now = console.service.key_store, SystemClock().now_ms()
    key_issuing.update(key_store, key_id, key_issuing.KeyChanges(per_day=500, label="ERP 2"), now, ALICE)
    key_issuing.update(key_store, key_id, key_issuing.KeyChanges(per_min=5), now, BOB)
    command = Command(console.settings.store)
    refused = command("keys", "update", key_id, "--per-day", 900, "--personal-data", status=1)
    assert refused.stdout == ""
    assert re.fullmatch(
        r"counterfoil: \d+ seconds? ago, alice \(console\) changed perDay from 10,000 to 500\. Nothing was changed\. "
        r"To replace that value with 900, run the command with --yes\.\n",
        refused.stderr,
    )
    unchanged = key_issuing.key_in(key_store.all(), key_id)
    assert (unchanged.per_day, unchanged.personal_data) == (500, False)
    said = command("keys", "update", key_id, "--per-day", 900, "--yes").stderr
    assert re.search(
        r"note: \d+ seconds? ago, alice \(console\) changed perDay from 10,000 to 500\. "
        r"This command has replaced that value with 900\.",
        said,
    )
    assert "label" not in said
    assert command("keys", "update", key_id, "--per-day", 901).stderr == ""


def test_the_command_line_changes_other_fields_than_somebody_else_without_a_question(
    console: RunningConsole, key_id: str
) -> None:
    key_store, now = console.service.key_store, SystemClock().now_ms()
    key_issuing.update(key_store, key_id, key_issuing.KeyChanges(per_min=5), now - 61 * 60_000, ALICE)
    key_issuing.update(key_store, key_id, key_issuing.KeyChanges(per_day=500), now, ALICE)
    command = Command(console.settings.store)
    # Neither value conflicts: Alice changed the minute limit more than an hour ago, and the command sets the daily
    # quota to the value that she chose.
    assert command("keys", "update", key_id, "--per-min", 7, "--per-day", 500, "--label", "New").stderr == ""
    changed = key_issuing.key_in(key_store.all(), key_id)
    assert (changed.per_min, changed.per_day, changed.label) == (7, 500, "New")


def test_rotation_shows_the_successor_once(console: RunningConsole, alice: Operator, key_id: str) -> None:
    path = f"/keys/{key_id}"
    fields = alice.form_of(key_id, "rotate", overlap="1d")
    answer = alice.send(f"{path}/rotate", fields)
    successor = revealed(answer.text)
    assert successor
    assert f"The old key {key_id} works for another 24 hours." in answer.text
    again = alice.send(f"{path}/rotate", fields)
    assert again.status_code == 409
    assert revealed(again.text) is None
    old = key_issuing.key_in(console.service.key_store.all(), key_id)
    assert old.revokes_at == console.clock.now_ms() + 86_400_000
    assert len(console.service.key_store.all()) == 2


def test_a_key_can_be_rotated_again_from_a_page_that_shows_its_successor(alice: Operator, key_id: str) -> None:
    for _ in range(2):
        assert alice.act(key_id, "rotate", overlap="keep").status_code == 200
    assert sorted(key.successor_of or "" for key in alice.console.service.key_store.all()) == ["", key_id, key_id]


def test_a_revoked_key_is_refused_by_the_next_call(console: RunningConsole, alice: Operator, shop: str) -> None:
    key = console.service.key(shop=shop)
    key_id = key.split("_")[2]
    assert console.service.get("shops", key).status_code == 200
    answer = alice.act(key_id, "revoke", confirm=key_id)
    assert message(answer).startswith("The key is revoked.")
    console.clock.advance(1)
    assert console.service.error("shops", key) == "key_revoked"


@pytest.mark.parametrize("action", ["", *ACTIONS])
def test_the_page_of_a_revoked_key_offers_no_actions(alice: Operator, key_id: str, action: str) -> None:
    assert f'href="/keys/{key_id}?tab=revoke"' in alice.page(f"/keys/{key_id}")
    key_issuing.revoke(alice.console.service.key_store, key_id, alice.console.clock.now_ms(), BOB)
    page = alice.page(f"/keys/{key_id}?tab={action}")
    assert f'action="/keys/{key_id}' not in page
    assert [name for name in ACTIONS if f'/keys/{key_id}?tab={name}"' in page] == []


@pytest.mark.parametrize(
    ("confirm", "is_right"),
    [("Warehouse", True), (" warehouse ", True), ("KEY", True), ("another", False), ("", False), (" ", False)],
)
def test_revoking_needs_the_label_or_the_id_of_the_key(
    console: RunningConsole, alice: Operator, key_id: str, confirm: str, is_right: bool
) -> None:
    answer = alice.act(key_id, "revoke", confirm=confirm.replace("KEY", key_id))
    assert answer.status_code == (200 if is_right else 422)
    assert (f'action="/keys/{key_id}/revoke"' in answer.text) is not is_right
    revoked_at = key_issuing.key_in(console.service.key_store.all(), key_id).revoked_at
    assert revoked_at == (console.clock.now_ms() if is_right else None)


def test_a_key_is_revoked_in_24_hours(console: RunningConsole, alice: Operator, key_id: str) -> None:
    fields = alice.form_of(key_id, "revoke", confirm="Warehouse", when="later")
    in_a_day = console.clock.now_ms() + 86_400_000
    assert alice.send(f"/keys/{key_id}/revoke", fields).status_code == 200
    assert key_issuing.key_in(console.service.key_store.all(), key_id).revokes_at == in_a_day
    assert alice.json("/audit.json")["entries"][0]["act"] == "revocation_scheduled"
    # A second form does not postpone the revocation.
    console.clock.advance(600)
    assert 'value="later"' not in alice.page(f"/keys/{key_id}?tab=revoke")
    assert alice.act(key_id, "revoke", confirm="Warehouse", when="later").status_code == 409
    assert key_issuing.key_in(console.service.key_store.all(), key_id).revokes_at == in_a_day


def test_a_key_that_is_already_revoked_is_not_revoked_again(alice: Operator, key_id: str) -> None:
    fields = alice.form_of(key_id, "revoke", confirm="Warehouse")
    key_issuing.revoke(alice.console.service.key_store, key_id, alice.console.clock.now_ms(), BOB)
    assert alice.send(f"/keys/{key_id}/revoke", fields).status_code == 409


@pytest.mark.parametrize(
    ("tab", "name", "shown"),
    [
        ("use", "Use", "Use"),
        ("copy", "Copy", "Freshness of the copy"),
        ("errors", "Errors", "Errors"),
        ("audit", "Audit", "Audit"),
    ],
)
def test_each_tab_of_a_key_shows_one_part_and_is_marked(
    alice: Operator, key_id: str, tab: str, name: str, shown: str
) -> None:
    page = alice.page(f"/keys/{key_id}?tab={tab}")
    assert re.findall(r"<h2>([^<]*)</h2>", page) == [shown]
    assert f'aria-current="page">{name}<' in page


@pytest.mark.parametrize("card", SHOWN)
def test_each_card_of_the_keys_has_a_name_and_is_marked(alice: Operator, card: str) -> None:
    page = alice.page(f"/keys?show={card}")
    assert page.count('aria-current="page"><strong') == 1


def test_the_page_of_an_unknown_key_says_so(alice: Operator) -> None:
    answer = alice.get("/keys/AAAAAAAAAAAA")
    assert answer.status_code == 404
    assert "There is no key AAAAAAAAAAAA" in answer.text


def test_keys_that_need_attention_are_counted(console: RunningConsole, shop: str) -> None:
    used = console.service.key(shop=shop, label="used", per_day=1)
    console.service.key(shop=shop, label="unused", personal_data=True)
    console.clock.advance(40 * 86_400)
    console.service.get("shops", used)
    console.service.restart()
    counts = console.operator("dan").json("/keys.json")["counts"]
    counted = {name for name, count in counts.items() if count}
    assert counted == {"active", "never_used", "personal_data_unused", "at_quota"}
    console.clock.advance(400 * 86_400)
    later = console.operator("bob").json("/keys.json")
    assert (later["counts"]["not_rotated"], later["counts"]["never_used"]) == (2, 1)
    shown = console.operator("carol").json("/keys.json?show=never_used")["keys"]
    assert [row["key"]["label"] for row in shown] == ["unused"]
