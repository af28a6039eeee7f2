"""On Thai pages, the findings of `status` and `doctor`, errors, rejects and audit entries are in Thai."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from actors import OPERATOR
from console.running_console import RunningConsole
from counterfoil import key_issuing
from counterfoil.backends.sqlite.files import MOVED_TO
from counterfoil.checks import cluster, intake, local
from counterfoil.console.texts import TABLE, Texts
from counterfoil.console.texts.translation import template_pattern, translation
from counterfoil.domain.access import Key, Scope
from counterfoil.domain.audit import field_changes
from counterfoil.domain.intake import IntakeAlarm, Measure, WatchedFolder, describe
from counterfoil.domain.problems import TABLE as PROBLEMS
from counterfoil.http.reference.guides import action
from counterfoil.importing.results import LOAD_REASONS
from counterfoil.ingest.lines import REASONS
from counterfoil.ports import Permissions
from records import branch

CHECKS = Path(local.__file__).parent
BACKENDS = CHECKS.parent / "backends"
THAI = Texts("th")
_ENGLISH_WORDS = re.compile(r"\b[a-z]{3,}\b")


def _strings(tree: ast.Module) -> Iterator[str]:
    """Yield all strings in a module except docstrings. Each value in an f-string is replaced with the digit 7."""
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(inner) for inner in ast.walk(node) if inner is not node}
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "7" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def sentences() -> list[str]:
    """Return the sentences in the source code of the checks: messages and advice."""
    found = {text for file in CHECKS.glob("*.py") for text in _strings(ast.parse(file.read_text("utf-8")))}
    return sorted(
        text
        for text in found
        if (text[:1].isupper() or text.startswith("7")) and text.endswith((".", "77")) and re.search("[a-z]{3}", text)
    )


def test_the_checks_have_the_sentences_that_this_test_looks_for() -> None:
    assert {"The folder is writable.", "7 is free.", "If it is no longer running, 77"} < set(sentences())


@pytest.mark.parametrize("sentence", sentences())
def test_every_finding_and_its_advice_has_a_thai_text(sentence: str) -> None:
    assert translation(THAI, sentence)


def test_every_text_about_findings_belongs_to_a_finding() -> None:
    # These warnings are composed in `domain/`, not in `checks/`. Another test covers their translations.
    composed = {"message.watcher_stopped", "message.watcher_unseen", "message.folder_silent"}
    found = sentences()
    names = [name for name in TABLE if name.startswith("message.") and name not in composed]
    unused = [name for name in names if not any(template_pattern(TABLE[name][0]).fullmatch(one) for one in found)]
    assert unused == []


def test_every_check_has_a_thai_name() -> None:
    calls = (
        node
        for file in CHECKS.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding"
    )
    named = {str(call.args[0].value) for call in calls if isinstance(call.args[0], ast.Constant)}
    assert {"service", "secret", "meter"} < named
    # In the checks, the names of databases and listeners are variables, so they are listed here.
    assert {f"check.{name}" for name in (*named, "books", "keys", "usage", "port", "admin")} <= set(TABLE)


@pytest.mark.parametrize("is_stopped", [False, True])
def test_warnings_about_watched_folders_are_translated(is_stopped: bool) -> None:
    hour = 3_600_000
    folder = WatchedFolder("deliveries", seen_at=0, delivered_at=0, is_stopped=is_stopped)
    seen = WatchedFolder("deliveries", seen_at=3 * hour, delivered_at=0)
    for finding in (*intake.watched_folders([folder], hour, 0), *intake.watched_folders([seen], 3 * hour, 30)):
        assert finding.status == "warn"
        text = translation(THAI, finding.message)
        assert text
        assert not _ENGLISH_WORDS.findall(text.replace("deliveries", ""))


@pytest.mark.parametrize("measure", get_args(Measure))
def test_sudden_changes_are_translated(measure: Measure) -> None:
    alarm = IntakeAlarm(measure=measure, field="bill: lines.qty", count=12, total=1_200, before=0.002)
    text = translation(THAI, f"Sudden change, noticed 3 hours ago: {describe(alarm)}.")
    assert text
    assert set(_ENGLISH_WORDS.findall(text)) <= {"bill", "lines", "qty"}


@pytest.mark.parametrize(
    ("message", "thai"),
    [
        ("No service responds at 127.0.0.1:8001 (connection refused).", "ไม่มีบริการตอบที่ 127.0.0.1:8001 (ปฏิเสธการเชื่อมต่อ)"),
        (
            (
                "12 shops, 2 silent: Quiet (no bill for 3 days; usually at least 9 bills in that time), "
                "Riverside, Ari (no bill for 5 hours; usually at least 5.5 bills in that time)."
            ),
            (
                "12 ร้าน เงียบ 2 ร้าน: Quiet (ไม่มีบิลมา 3 วัน ปกติมีอย่างน้อย 9 บิล), "
                "Riverside, Ari (ไม่มีบิลมา 5 ชั่วโมง ปกติมีอย่างน้อย 5.5 บิล)"
            ),
        ),
        (
            "1 active key; near today's quota: ERP (9 of 10) and 4 more.",
            "คีย์ที่ใช้งานได้ 1 คีย์ ใกล้เต็มโควตาวันนี้: ERP (9 จาก 10) และอีก 4",
        ),
        (
            "Finished 1 second ago: 1 line, 1 changed, 0 rejected.",
            "เสร็จเมื่อ 1 วินาทีที่แล้ว: 1 บรรทัด เปลี่ยน 1 ระเบียน ปฏิเสธ 0 บรรทัด",
        ),
        ("The latest load finished (1 line).", "การนำเข้าล่าสุดเสร็จแล้ว (1 บรรทัด)"),
        (
            "Finished 2 hours ago: 1,200 lines, 30 changed, 0 rejected.",
            "เสร็จเมื่อ 2 ชั่วโมงที่แล้ว: 1,200 บรรทัด เปลี่ยน 30 ระเบียน ปฏิเสธ 0 บรรทัด",
        ),
        (
            (
                "If it is no longer running, run the same `counterfoil load` again; records that are already loaded "
                "are skipped."
            ),
            "ถ้าไม่ได้ทำงานอยู่แล้ว: รัน `counterfoil load` คำสั่งเดิมอีกครั้ง ระเบียนที่นำเข้าแล้วจะถูกข้าม",
        ),
    ],
)
def test_values_within_a_finding_are_translated(message: str, thai: str) -> None:
    assert translation(THAI, message) == thai


@pytest.mark.parametrize(
    ("login", "message", "thai"),
    [
        (Permissions("cf", True, False, False, False), "can serve and nothing else", "ให้บริการได้อย่างเดียว"),
        (Permissions("cf", False, True, False, False), "can load and nothing else", "นำเข้าได้อย่างเดียว"),
        (Permissions("cf", False, False, True, False), "can issue keys and nothing else", "ออกคีย์ได้อย่างเดียว"),
        (
            Permissions("cf", False, True, True, False),
            "can load and issue keys, and nothing else",
            "นำเข้าและออกคีย์ได้เท่านั้น",
        ),
        (Permissions("cf", False, False, False, False), "has no permissions here", "ไม่มีสิทธิ์ที่นี่"),
    ],
    ids=["serve", "load", "issue keys", "load and issue keys", "nothing"],
)
def test_a_finding_names_all_permissions_of_a_login_in_both_languages(
    login: Permissions, message: str, thai: str
) -> None:
    finding = cluster.permissions(login)
    assert (finding.status, finding.message) == ("ok", f"The login cf {message}.")
    assert translation(THAI, finding.message) == f"ผู้ใช้ cf: {thai}"


STORE_ERRORS = {"StoreUnavailable", "StoreUnreachable", "StoreBusy", "StoreMismatch", "kind"}
# Functions that return the reason why a store cannot be used.
STORE_REASONS = {"mismatch", "is_missing", "is_damaged", "cannot_be_read", "no_store", "unfinished_store"}
# Modules that distribute, fill, copy, back up or restore a store. Only commands print their errors.
COMMANDS_ONLY = {"copy_source.py", "copy_target.py", "citus_layout.py", "ledger.py", "backup.py", "restore.py"}
# Only `init --recreate` reports this error, and the console has no such command.
NOT_IN_CONSOLE = {"7.sqlite3 is not missing, so it was not recreated."}


def _called(node: ast.AST, names: set[str]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _messages(tree: ast.Module, errors: set[str], functions: set[str]) -> set[str]:
    """Return the messages of these errors and the strings that these functions return. Constants are resolved."""
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = set()
    for node in ast.walk(tree):
        values: list[ast.expr] = []
        if _called(node, errors) and isinstance(node, ast.Call):
            values = [constants.get(one.id, one) if isinstance(one, ast.Name) else one for one in node.args]
        elif isinstance(node, ast.FunctionDef) and node.name in functions:
            values = [one.value for one in ast.walk(node) if isinstance(one, ast.Return) and one.value]
        # If the message is only the text of another error, there is no string to find here.
        found |= {text for value in values for text in _strings(ast.Module([ast.Assign([], value)], []))}
    return {text for text in found if re.search("[A-Za-z]{3}", text)}


def store_messages() -> list[str]:
    files = [file for file in BACKENDS.rglob("*.py") if file.name not in COMMANDS_ONLY]
    trees = (ast.parse(file.read_text("utf-8")) for file in files)
    found = {text for tree in trees for text in _messages(tree, STORE_ERRORS, STORE_REASONS)}
    # The search above cannot find this message, because triggers in a retired store raise it.
    return sorted((found | {f"{MOVED_TO} 7"}) - NOT_IN_CONSOLE)


def test_every_text_about_a_store_belongs_to_a_message_of_a_back_end() -> None:
    messages = store_messages()
    names = [name for name in TABLE if name.startswith("store_problem.")]
    assert names
    unused = [name for name in names if not any(template_pattern(TABLE[name][0]).fullmatch(one) for one in messages)]
    assert unused == []


def test_the_back_ends_have_the_messages_that_this_test_looks_for() -> None:
    assert {
        "PostgreSQL: no server accepts writes",
        "PostgreSQL: 7",
        "SQLite: 7",
        "the database has schema 7, but this version needs 7: run `counterfoil migrate`.",
    } < set(store_messages())


@pytest.mark.parametrize("message", store_messages())
def test_every_reason_why_a_store_cannot_be_used_has_a_thai_text(message: str) -> None:
    assert translation(THAI, message)
    assert translation(THAI, f"{message.removesuffix('.')}.")


@pytest.mark.parametrize(
    ("message", "thai"),
    [
        (
            "PostgreSQL: canceling statement due to lock timeout",
            "PostgreSQL แจ้งว่า: ยกเลิกคำสั่ง เพราะรอการล็อกนานเกินไป",
        ),
        (
            'PostgreSQL: password authentication failed for user "cf_ops".',
            'PostgreSQL แจ้งว่า: รหัสผ่านของผู้ใช้ "cf_ops" ไม่ถูกต้อง',
        ),
        ("PostgreSQL: permission denied for table keys.", "PostgreSQL แจ้งว่า: ไม่มีสิทธิ์ใช้ตาราง keys"),
        ("PostgreSQL: something rare happened.", "PostgreSQL แจ้งว่า: something rare happened"),
        ("SQLite: database is locked", "SQLite แจ้งว่า: ไฟล์ถูกล็อกโดยโปรเซสอื่น"),
        ("meter: No connection available.", "ตัวนับคำขอแจ้งว่า: No connection available"),
        ("bridge: No connection available.", "บริดจ์แจ้งว่า: No connection available"),
        (
            "bridge: cursors that were handed out may have been lost",
            "บริดจ์: เคอร์เซอร์ที่ส่งออกไปแล้วอาจสูญหาย",
        ),
    ],
)
def test_frequent_errors_of_a_database_are_translated_and_others_are_quoted(message: str, thai: str) -> None:
    assert translation(THAI, message) == thai


def key_refusals() -> list[str]:
    tree = ast.parse((CHECKS.parent / "key_issuing.py").read_text("utf-8"))
    return sorted(_messages(tree, {"KeyIssuingError", "KeyRevoked"}, set()))


def test_key_issuing_has_the_refusals_that_this_test_looks_for() -> None:
    assert "a label must not be longer than 7 characters." in key_refusals()


@pytest.mark.parametrize("message", key_refusals())
def test_every_refused_change_to_a_key_has_a_thai_text(message: str) -> None:
    assert translation(THAI, message[:1].upper() + message[1:])


def test_every_text_about_a_refused_change_belongs_to_a_refusal() -> None:
    sent = [text[:1].upper() + text[1:] for text in key_refusals()]
    names = [name for name in TABLE if name.startswith("refusal.")]
    assert names
    unused = [name for name in names if not any(template_pattern(TABLE[name][0]).fullmatch(one) for one in sent)]
    assert unused == []


def test_refused_values_of_the_forms_come_from_the_table_of_texts() -> None:
    """The console shows the message of an `InvalidForm` or `NotFound` error unchanged.

    A string in the code would therefore be in English on a Thai page.
    """
    raised = [
        node
        for file in (CHECKS.parent / "console").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if _called(node, {"InvalidForm", "NotFound"})
    ]
    assert len(raised) >= 5
    texts = [ast.unparse(node.args[0]) for node in raised if isinstance(node, ast.Call)]
    assert [text for text in texts if not text.startswith("visit.t(")] == []


def test_every_refused_request_has_a_thai_text() -> None:
    calls = (
        node
        for name in ("guards.py", "server.py")
        for node in ast.walk(ast.parse((CHECKS.parent / "console" / name).read_text("utf-8")))
        if _called(node, {"ConsoleRefusal", "refusal_response"})
    )
    reasons = {
        str(node.args[-1].value)
        for node in calls
        if isinstance(node, ast.Call) and isinstance(node.args[-1], ast.Constant)
    }
    assert {"foreign_form", "body_too_large"} < reasons
    assert {f"guard.{reason}" for reason in reasons} == {name for name in TABLE if name.startswith("guard.")}


@pytest.mark.parametrize(
    "entered",
    [
        {"per_min": "0"},
        {"per_day": "1000000001"},
        {"label": " "},
        {"label": "x" * 201},
        {"label": "two\nlines"},
        {"scope": ""},
        {"scope": "other", "other_kind": "shop", "other_id": "x" * 513},
        {"scope": "other", "other_kind": "franchise", "other_id": "x" * 513},
        {"scope": "other", "other_kind": "shop", "other_id": "a\nb"},
    ],
)
def test_refused_values_of_the_form_for_a_new_key_are_explained_in_thai(
    console: RunningConsole, entered: dict[str, str]
) -> None:
    somchai = console.operator("somchai", **{"accept-language": "th"})
    answer = somchai.issue(**{"scope": "other", "other_kind": "shop", "other_id": "sh_1", **entered})
    assert answer.status_code == 422
    assert _english_in(answer.text) == []


def _english_in(page: str) -> list[str]:
    """Return the English words in the first message on a page."""
    found = re.search(r'<p class="notice[^>]*role="status">(.*?)</p>', page, re.DOTALL)
    assert found, page
    assert re.search("[\u0e00-\u0e7f]", found[1])
    return _ENGLISH_WORDS.findall(re.sub("<[^>]*>", "", found[1]))


def test_a_refused_rotation_is_explained_in_thai(console: RunningConsole) -> None:
    key_id = console.service.key(shop="sh_1").split("_")[2]
    somchai = console.operator("somchai", **{"accept-language": "th"})
    path = f"/keys/{key_id}"
    fields = somchai.fill_in(path, f"{path}/rotate", overlap="keep")
    key_issuing.revoke(console.service.key_store, key_id, console.clock.now_ms(), OPERATOR)
    answer = somchai.send(f"{path}/rotate", fields)
    assert answer.status_code == 409
    assert set(_english_in(answer.text)) <= {*_ENGLISH_WORDS.findall(key_id), OPERATOR.name}


def test_a_form_of_another_site_is_refused_in_thai(console: RunningConsole) -> None:
    somchai = console.operator("somchai", **{"accept-language": "th"})
    answer = somchai.send("/keys/new", {}, **{"sec-fetch-site": "cross-site"})
    assert (answer.status_code, answer.text) == (403, "รับแบบฟอร์มจากหน้าของคอนโซลนี้เท่านั้น\n")
    answer = somchai.send("/keys/new", {"label": "x" * 100_000})
    assert (answer.status_code, answer.text) == (413, "ข้อมูลที่ส่งมามีขนาดใหญ่เกินไป\n")


def test_the_reason_why_a_store_cannot_be_read_is_in_thai(console: RunningConsole) -> None:
    console.service.load(branch())
    somchai = console.operator("somchai", **{"accept-language": "th"})
    for file in console.settings.store.glob("usage.sqlite3*"):
        file.unlink()
    (console.settings.store / "usage.sqlite3").write_bytes(b"not a database, but long enough to look like one" * 100)
    assert "หยุดบริการและกู้คืนไฟล์จากสำเนาสำรอง" in somchai.page("/store")


def test_a_message_without_a_text_is_not_translated() -> None:
    assert translation(THAI, "A message of a newer version.") is None


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.code)
def test_every_error_code_has_its_message_and_advice_in_thai(problem: object) -> None:
    found = next(one for one in PROBLEMS if one is problem)
    assert TABLE[f"error_message.{found.code}"][0] == found.message
    assert TABLE[f"error_action.{found.code}"][0] == action(found)


def test_every_reason_for_a_rejected_line_is_in_thai() -> None:
    english = {name.partition(".")[2]: texts[0] for name, texts in TABLE.items() if name.startswith("reject.")}
    assert english == REASONS | LOAD_REASONS


def test_every_field_of_an_audit_entry_has_a_thai_name() -> None:
    scope = Scope("shop", "sh_1")
    key = Key(
        key_id="k",
        scope=scope,
        created_at=1,
        label="ERP",
        personal_data=True,
        successor_of="old",
        revokes_at=2,
        revoked_at=3,
    )
    names = {f"audit_field.{name}" for name in (*field_changes(None, key), "successor")}
    assert names == {name for name in TABLE if name.startswith("audit_field.")}


def test_a_thai_page_shows_findings_errors_and_audit_entries_in_thai(console: RunningConsole) -> None:
    shop = branch()
    console.service.load(shop, b'{"kind":"bill"}')
    key = console.service.key(shop=shop["id"])
    console.service.get("transactions", key, shopId="elsewhere")
    console.service.restart()
    somchai = console.operator("somchai", **{"accept-language": "th"})
    assert "การนำเข้าล่าสุดปฏิเสธบางบรรทัด (2 บรรทัด เปลี่ยน 1 ระเบียน ปฏิเสธ 1 บรรทัด)" in somchai.page("/")
    assert "<li>คำขอต่อวัน: 10,000</li>" in somchai.page("/audit")
    assert "ไม่มี id ที่ใช้ได้" in somchai.page("/loads/1")
    assert "แก้ไขคำขอ คำขอเดิมจะล้มเหลวอีก" in somchai.page(f"/keys/{key.split('_')[2]}")
    for path in ("/", "/store"):
        assert 'lang="en"' not in somchai.page(path).partition("<main")[2]
