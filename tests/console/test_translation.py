"""Every text exists in English and Thai, and Thai pages show findings, errors, rejects and audit entries in Thai."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from console.running_console import RunningConsole
from counterfoil import bootstrap
from counterfoil.backends.postgres.addresses import server_error
from counterfoil.backends.sqlite.files import translated
from counterfoil.checks import cluster, contents, local, open_items, overview, running
from counterfoil.checks.contents import SHOPS_SILENT, SILENT_SHOP
from counterfoil.checks.findings import FindingKind
from counterfoil.cli import status
from counterfoil.console import app, guards
from counterfoil.console.audit_texts import ACT_NAMES, FIELD_NAMES
from counterfoil.console.key_parts import PERMISSION_NAMES
from counterfoil.console.layout import REFUSALS
from counterfoil.console.rendering import templates
from counterfoil.console.texts import Texts, preferred
from counterfoil.domain.access import Key, Scope, permissions
from counterfoil.domain.audit import Act, field_changes
from counterfoil.model.messages import Message, duration
from counterfoil.ports import Permissions, StoreUnavailable
from records import branch
from upkeep import translations

THAI = Texts("th")
PACKAGE = Path(bootstrap.__file__).parent


def test_every_check_has_a_name_on_the_pages() -> None:
    page: Any = templates().get_template("findings.html").make_module({"t": THAI})
    named = set(page.check_names)
    modules = (cluster, contents, local, open_items, overview, running, status)
    kinds = [value for module in modules for value in vars(module).values() if isinstance(value, FindingKind)]
    assert {kind.check for kind in kinds if kind.check} <= named


# What the console has a button or a page for. The rest needs whoever runs the machine.
DONE_ON_PAGES = re.compile(r"`counterfoil (load(?! --watch)|loads|keys update|shops|usage|doctor)\b")


def test_advice_about_what_the_console_can_do_names_no_command() -> None:
    page: Any = templates().get_template("findings.html").make_module({"t": Texts("en")})
    modules = (cluster, contents, local, open_items, overview, running, status)
    kinds = [value for module in modules for value in vars(module).values() if isinstance(value, FindingKind)]
    advised = {kind.code for kind in kinds if DONE_ON_PAGES.search(str(kind.advice))}
    assert advised - set(page.own_advice) == set()
    assert set(page.own_advice) <= {kind.code for kind in kinds}
    assert [text for text in page.own_advice.values() if "counterfoil" in text] == []


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ('Message("gone", f"{name} is gone")', "put together"),
        ('Message("gone", "{name} is gone", file=name)', r"needs the values \['name'\]"),
    ],
)
def test_a_text_that_cannot_be_translated_or_filled_is_refused(tmp_path: Path, call: str, problem: str) -> None:
    file = tmp_path / "checks.py"
    file.write_text(call)
    with pytest.raises(ValueError, match=problem):
        list(translations.texts_of_calls(file))


def test_values_within_a_finding_are_in_the_language_of_the_page() -> None:
    names = [
        SILENT_SHOP(name="Quiet", span=duration(3 * 86_400_000), usual="9"),
        SILENT_SHOP(name="Riverside, Ari", span=duration(5 * 3_600_000), usual="5.5"),
    ]
    message = SHOPS_SILENT(count=1_200, silent=2, names=names).message
    assert str(message) == (
        "1,200 shops, 2 silent: Quiet (no bill for 3 days; usually at least 9 bills in that time), "
        "Riverside, Ari (no bill for 5 hours; usually at least 5.5 bills in that time)."
    )
    assert THAI.message(message) == (
        "1,200 ร้าน เงียบ 2 ร้าน: Quiet (ไม่มีบิลมา 3 วัน ปกติมีอย่างน้อย 9 บิล), "
        "Riverside, Ari (ไม่มีบิลมา 5 ชั่วโมง ปกติมีอย่างน้อย 5.5 บิล)"
    )


@pytest.mark.parametrize(
    ("login", "message", "thai"),
    [
        (Permissions("cf", True, False, False, False), "can serve and nothing else", "ให้บริการได้อย่างเดียว"),
        (
            Permissions("cf", False, True, True, False),
            "can load and issue keys, and nothing else",
            "นำเข้าและออกคีย์ได้เท่านั้น",
        ),
        (Permissions("cf", False, False, False, False), "has no permissions here", "ไม่มีสิทธิ์ที่นี่"),
    ],
    ids=["serve", "load and issue keys", "nothing"],
)
def test_a_finding_names_all_permissions_of_a_login_in_both_languages(
    login: Permissions, message: str, thai: str
) -> None:
    finding = cluster.permissions(login)
    assert (finding.status, str(finding.message)) == ("ok", f"The login cf {message}.")
    assert THAI.message(finding.message) == f"ผู้ใช้ cf: {thai}"


@pytest.mark.parametrize(
    ("error", "sqlstate", "words", "thai"),
    [
        (Exception, "55P03", "canceling statement due to lock timeout", "ยกเลิกคำสั่ง เพราะรอการล็อกนานเกินไป"),
        (Exception, "42501", "permission denied for table keys", "ไม่มีสิทธิ์: permission denied for table keys"),
        (OSError, None, "Connection refused", "เชื่อมต่อกับเซิร์ฟเวอร์ไม่ได้: Connection refused"),
        (Exception, "XX000", "something rare happened", "something rare happened"),
    ],
    ids=["lock", "permission", "connection", "rare"],
)
def test_frequent_errors_of_postgresql_are_translated_and_others_are_quoted_without_details(
    error: type[Exception], sqlstate: str | None, words: str, thai: str
) -> None:
    raised = error(f"{words}\nDETAIL: secret")
    vars(raised)["sqlstate"] = sqlstate  # as the errors of both drivers have it
    message = server_error(raised)
    assert (str(message), THAI.message(message)) == (f"PostgreSQL: {words}", f"PostgreSQL แจ้งว่า: {thai}")


def test_frequent_errors_of_sqlite_are_translated(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"not a database, but long enough to look like one" * 100)
    with closing(sqlite3.connect(tmp_path / "x")) as file, pytest.raises(StoreUnavailable) as raised, translated():
        file.execute("SELECT * FROM x")
    assert str(raised.value) == "SQLite: file is not a database"
    assert THAI.message(raised.value.message) == "SQLite แจ้งว่า: ไฟล์นี้ไม่ใช่ฐานข้อมูล"


def test_every_refused_request_has_a_text() -> None:
    named = set(re.findall(r'"([a-z_]+)"', Path(guards.__file__).read_text() + Path(app.__file__).read_text()))
    assert set(REFUSALS) <= named


@pytest.mark.parametrize(
    "entered",
    [
        {"per_min": "0"},
        {"label": " "},
        {"label": "two\nlines"},
        {"scope": ""},
        {"scope": "other", "other_kind": "franchise", "other_id": "x" * 513},
    ],
)
def test_refused_values_of_the_form_for_a_new_key_are_explained_in_thai(
    console: RunningConsole, entered: dict[str, str]
) -> None:
    somchai = console.operator("somchai", "th")
    answer = somchai.issue(**{"scope": "other", "other_kind": "shop", "other_id": "sh_1", **entered})
    assert answer.status_code == 422
    notice = r'<p class="(?:notice[^>]*role="status"|wrong" role="alert")>(.*?)</p>'
    found = re.search(notice, answer.text, re.DOTALL)
    assert found, answer.text
    assert _THAI.search(found[1])
    assert re.findall(r"\b[a-z]{3,}\b", re.sub("<[^>]*>", "", found[1])) == []


def test_a_form_of_another_site_is_refused_in_thai(console: RunningConsole) -> None:
    somchai = console.operator("somchai", "th")
    answer = somchai.send("/keys/new", {}, **{"sec-fetch-site": "cross-site"})
    assert (answer.status_code, answer.text) == (403, THAI.gettext(REFUSALS["foreign_form"]) + "\n")
    answer = somchai.send("/keys/new", {"label": "x" * 100_000})
    assert (answer.status_code, answer.text) == (413, THAI.gettext(REFUSALS["body_too_large"]) + "\n")


def test_a_message_without_a_text_is_shown_and_marked_as_english() -> None:
    message = Message("of_a_newer_version", "A message of a newer version.")
    macros: Any = templates().get_template("macros.html").make_module({"t": THAI})
    assert str(macros.sentence(message)) == '<span lang="en">A message of a newer version.</span>'


def test_a_thai_page_shows_findings_errors_and_audit_entries_in_thai(console: RunningConsole) -> None:
    shop = branch()
    console.service.load(shop, b'{"kind":"bill"}')
    key = console.service.key(shop=shop["id"])
    console.service.get("transactions", key, shopId="elsewhere")
    console.service.restart()
    somchai = console.operator("somchai", "th")
    assert "บรรทัดที่ถูกปฏิเสธ 1 บรรทัดจากการนำเข้า 1 ครั้งยังไม่ได้นำเข้า" in somchai.page("/")
    assert "<li>คำขอต่อวัน: 10,000</li>" in somchai.page("/audit")
    assert (
        '<span>ชื่อ: somchai</span> <small>+2</small></summary><ul class="changes"><li>บทบาท: ผู้ดูแล</li>'
        in somchai.page("/audit")
    )
    assert "ไม่มี id ที่ใช้ได้" in somchai.page("/loads/1")
    assert "แก้ไขคำขอ คำขอเดิมจะล้มเหลวอีก" in somchai.page(f"/keys/{key.split('_')[2]}?tab=errors")
    for path in ("/", "/store"):
        assert 'lang="en"' not in somchai.page(path).partition("<main")[2]


# --- the texts of pages ----------------------------------------------------------------

_THAI = re.compile(r"[\u0e00-\u0e7f]")


def test_every_text_of_the_pages_is_translated() -> None:
    assert translations.problems("th") == []


def test_every_act_field_and_permission_has_a_name() -> None:
    assert set(ACT_NAMES) == set(Act)
    key = Key(
        key_id="k",
        scope=Scope("shop", "sh_1"),
        created_at=1,
        label="ERP",
        personal_data=True,
        messaging_lookup=True,
        successor_of="old",
        revokes_at=2,
        revoked_at=3,
    )
    of_shops = {"shop", "closingTime", "franchiseId", "providerId", "timezone"}
    of_devices_and_loads = {"device", "name", "role", "days", "load", "line", "bills", "members"}
    assert set(FIELD_NAMES) == {*field_changes(None, key), "successor"} | of_shops | of_devices_and_loads
    assert set(PERMISSION_NAMES) == set(permissions(key))


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", "en"),
        ("th", "th"),
        ("th-TH,th;q=0.9,en-US;q=0.8", "th"),
        ("en-US,en;q=0.9,th;q=0.8", "en"),
        ("de, th;q=0.5", "th"),
        ("de, fr;q=0.5", "en"),
        ("th;q=0", "en"),
        ("en;q=0.2, th;q=0.9", "th"),
        ("th;q=nonsense,,;;", "en"),
    ],
)
def test_the_preferred_language_is_chosen(header: str, language: str) -> None:
    assert preferred(header) == language
