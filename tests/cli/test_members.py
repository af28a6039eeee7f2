"""Tests for `counterfoil members forget`: what is found and erased in store and files, and what is said about it."""

import gzip
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

import servers
from cli.command import PYTHON, SHOPS, Command, run_sql
from counterfoil import bootstrap
from counterfoil.domain.forgetting import Contacts, ForgottenMember, Person, mark_of
from counterfoil.domain.open_items import OpenItem
from counterfoil.domain.tokens import Pseudonyms
from counterfoil.machine.operator import machine_name
from counterfoil.model.calendar import MINUTE_MS
from counterfoil.program.clock import SystemClock
from counterfoil.settings import load as load_settings
from running_service import SECRET, RunningService

ID, TEL, EMAIL = "person-4711", "0891234567", "somchai@example.test"
OTHER = "person-4712"
TOKEN = Pseudonyms(SECRET.encode()).member_token(ID)


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_SECRET", SECRET)


def member(member_id: str = ID, **fields: Any) -> dict[str, Any]:
    return {"kind": "member", "id": member_id, "providerId": "mb_a", **fields}


def bill(bill_id: str, shop_id: str = "sh_1", **fields: Any) -> dict[str, Any]:
    closed_at = "2026-01-01T12:00:00+07:00"
    return {"kind": "bill", "id": bill_id, "shopId": shop_id, "closedAt": closed_at, "memberId": ID, **fields}


def lines(*records: dict[str, Any]) -> bytes:
    return b"\n".join([*SHOPS, b'{"kind":"base","id":"mb_a"}', *(json.dumps(record).encode() for record in records)])


PERSON = member(tel=TEL, email=EMAIL, createdAt="2025-05-05T12:00:00+07:00")


@pytest.fixture(scope="module")
def store_with_member(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = [
        PERSON,
        member(OTHER, tel="0890000000"),
        bill("b_1", amounts={"net": 10.10}),
        bill("b_2", memberId=OTHER),
    ]
    store = tmp_path_factory.mktemp("member") / "store"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COUNTERFOIL_SECRET", SECRET)
        Command(store)("load", "-", stdin=lines(*records))
    return store


@pytest.fixture
def with_member(counterfoil: Command, store_with_member: Path) -> Command:
    """A store with the member, another one, and a bill of each."""
    shutil.copytree(store_with_member, counterfoil.store)
    return counterfoil


def files_with_his_data(*folders: Path) -> list[Path]:
    """Return the files whose bytes, packed or not, have his ID, phone number or email address."""
    found = []
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                content += gzip.decompress(content) if content.startswith(b"\x1f\x8b") else b""
                if any(text.encode() in content for text in (ID, TEL, EMAIL)):
                    found.append(path)
    return found


def bills_naming_him(counterfoil: Command) -> int:
    return int(run_sql(counterfoil.store, "books", "SELECT count(*) FROM bills WHERE instr(body, '%s')" % TOKEN))  # noqa: S608, UP031 - a token


# --- who is meant ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [(ID,), (TOKEN,), ("--tel", "+66 89 123 4567"), ("--tel", "089-123-4567"), ("--email", " Somchai@Example.test")],
    ids=["ID", "token", "+66", "dashes", "email"],
)
def test_a_member_is_found_by_whatever_he_gives_and_nothing_is_changed_by_a_check(
    with_member: Command, words: tuple[str, ...]
) -> None:
    found = with_member.json("members", "forget", *words, "--check")
    assert (found["member"], found["record"]["tel"], found["done"]) == (TOKEN, TEL, None)
    assert found["bills"] == [{"shopId": "sh_1", "bills": 1, "firstDay": "2026-01-01", "lastDay": "2026-01-01"}]
    assert with_member.json("members", "forgotten") == []


@pytest.mark.parametrize(
    ("words", "status", "expected"),
    [
        ((), 2, "Name one member"),
        ((ID, "--unfinished"), 2, "Name one member"),
        ((ID,), 2, "needs --yes"),
        (("--tel", "none", "--yes"), 2, "a phone number has digits"),
        (("--tel", "-", "--yes"), 2, "standard input has no line"),
        (("--tel", "1", "--yes"), 1, "no member has this phone number"),
        (("--marks", __file__, "--yes"), 1, "is not a list of marks"),
    ],
)
def test_what_has_no_meaning_is_refused(
    with_member: Command, words: tuple[str, ...], status: int, expected: str
) -> None:
    assert expected in with_member("members", "forget", *words, status=status).stderr


def test_a_shared_phone_number_names_nobody_and_stays_with_the_other_member(with_member: Command) -> None:
    with_member("load", "-", stdin=lines(member(OTHER, tel=TEL)))
    refused = with_member("members", "forget", "--tel", TEL, "--yes", status=1)
    assert "2 members have this phone number" in refused.stderr
    assert TOKEN in refused.stdout
    done = with_member.json("members", "forget", ID, "--yes")
    assert (len(done["shared"]), done["done"]["remains"]) == (1, [])
    assert run_sql(with_member.store, "books", "SELECT count(*) FROM members") == 1


@pytest.mark.parametrize(
    ("words", "typed"), [(("-",), ID), (("--tel", "-"), "089 123 4567"), (("--email", "-"), EMAIL)]
)
def test_a_dash_reads_who_is_meant_so_that_no_history_or_log_of_commands_has_it(
    with_member: Command, words: tuple[str, ...], typed: str
) -> None:
    shown = with_member("members", "forget", *words, "--check", stdin=f"{typed}\n".encode())
    assert TOKEN in shown.stdout


def test_a_member_of_whom_nothing_is_found_is_said_to_be_so(with_member: Command) -> None:
    shown = with_member("members", "forget", "person-4771", "--check")
    assert "nothing of this member was found: check the ID" in shown.stderr


# --- what is erased --------------------------------------------------------------------------


def test_a_forgotten_member_leaves_no_bytes_in_the_store_and_later_loads_leave_him_out(with_member: Command) -> None:
    """The second load has a new bill of his, one that is rejected, and a record of his that is rejected."""
    assert files_with_his_data(with_member.store)
    done = with_member.json("members", "forget", ID, "--yes")["done"]
    assert (done["bills"], done["record"], done["remains"]) == (1, True, [])
    assert files_with_his_data(with_member.store) == []
    again = [PERSON, member(), member(providerId=None), bill("b_1"), bill("b_3"), bill("b_4", "sh_unknown")]
    loaded = with_member.json("load", "-", stdin=lines(*again), status=None)
    assert (loaded["forgotten"], loaded["rejected"]) == (3, 1)
    assert files_with_his_data(with_member.store) == []
    assert bills_naming_him(with_member) == 0
    shown = with_member("load", "-", stdin=lines(PERSON)).stdout
    assert "1 record of forgotten members was left out" in shown


def test_an_older_store_that_kept_what_was_deleted_is_written_anew(with_member: Command) -> None:
    """SQLite leaves deleted rows in unused space unless it is told not to."""
    with closing(sqlite3.connect(with_member.store / "books.sqlite3", isolation_level=None)) as books:
        books.execute("PRAGMA secure_delete = OFF")
        books.execute("CREATE TABLE scratch (text TEXT)")
        books.executemany("INSERT INTO scratch VALUES (?)", [(TEL * 300,)] * 50)
        books.execute("DROP TABLE scratch")
        books.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert with_member.json("members", "forget", ID, "--yes")["done"]["remains"] == []
    assert files_with_his_data(with_member.store) == []


def test_an_act_is_audited_without_anything_that_identifies_him(with_member: Command) -> None:
    with_member("members", "forget", "--tel", TEL, "--yes")
    (entry,) = [entry for entry in with_member.json("audit") if entry["act"] == "member_forgotten"]
    text = json.dumps(entry)
    assert mark_of(TOKEN) in text
    assert not [found for found in (ID, TEL, EMAIL, TOKEN) if found in text]


def test_a_new_record_of_the_person_with_another_id_is_loaded(with_member: Command) -> None:
    with_member("members", "forget", ID, "--yes")
    assert with_member.json("load", "-", stdin=lines(member("person-5000", tel=TEL)))["added"] == 1


def test_forgetting_again_finds_nothing_and_a_member_who_was_never_loaded_stays_out(counterfoil: Command) -> None:
    counterfoil("load", "-", stdin=lines(PERSON))
    for member_id in (ID, ID, OTHER):
        counterfoil("members", "forget", member_id, "--yes")
    assert len(counterfoil.json("members", "forgotten")) == 2
    assert counterfoil.json("load", "-", stdin=lines(PERSON, member(OTHER)))["forgotten"] == 2


def test_a_bill_whose_text_has_his_phone_number_is_named_and_stays(with_member: Command) -> None:
    with_member("load", "-", stdin=lines(bill("b_5", cashier=f"Call {TEL}", memberId=None)))
    done = with_member.json("members", "forget", ID, "--yes", status=1)
    assert done["namedInBills"] == [{"shopId": "sh_1", "id": "b_5"}]
    assert [Path(path).name.partition("-")[0] for path in done["done"]["remains"]] == ["books.sqlite3"]


def test_a_member_is_forgotten_on_postgresql_which_is_to_be_vacuumed_by_its_owner(tmp_path: Path) -> None:
    server = servers.postgres(18)
    database, url = server.fresh_database()
    counterfoil = Command(url)
    counterfoil("load", "-", stdin=lines(PERSON, bill("b_1")))
    shown = counterfoil("members", "forget", "--tel", TEL, "--yes")
    assert "Taken off 1 bill" in shown.stdout
    assert "VACUUM FULL counterfoil.members, counterfoil.accounts" in shown.stderr
    assert server.command("SELECT count(*) FROM counterfoil.members", database) == [(0,)]
    assert counterfoil.json("load", "-", stdin=lines(PERSON, bill("b_2")))["forgotten"] == 1
    named = "SELECT count(*) FROM counterfoil.bills WHERE position('m1_'::bytea IN body) > 0"
    assert server.command(named, database) == [(0,)]


WRITES = [
    ("members", "forget", ID, "--yes"),
    ("loads", "undo", "1", "--remove"),
    ("shops", "set", "sh_1", "--closing-time", "04:00", "--yes"),
]


@pytest.mark.parametrize("command", WRITES)
@pytest.mark.parametrize(
    ("role", "missing"), [("loading", "counterfoil_administration"), ("administration", "counterfoil_loading")]
)
def test_a_login_that_lacks_a_role_is_refused_before_anything_is_audited(
    database_with_logins: dict[str, Command], role: str, missing: str, command: tuple[str, ...]
) -> None:
    refused = database_with_logins[role](*command, status=1)
    assert f"lacks the role {missing}." in refused.stderr
    acts = [entry["act"] for entry in database_with_logins["administration"].json("audit")]
    assert not {"member_forgotten", "load_undone", "shop_changed"} & set(acts)


@pytest.fixture(scope="module")
def database_with_logins() -> dict[str, Command]:
    """A database with a login for each of two roles."""
    server = servers.postgres(18)
    database, url = server.fresh_database()
    Command(url)("migrate", "--roles")
    commands = {}
    for role in ("loading", "administration"):
        server.command(f"DROP ROLE IF EXISTS only_{role}", database)
        server.command(f"CREATE ROLE only_{role} LOGIN IN ROLE counterfoil_{role}", database)
        commands[role] = Command(url.replace("postgres@", f"only_{role}@"))
    return commands


# --- kept files ----------------------------------------------------------------------------------


def test_lines_in_rejects_files_are_erased_and_the_open_item_counts_what_is_left(with_member: Command) -> None:
    rejected = [member(providerId=None, tel=TEL), bill("b_7", "sh_unknown", note=f"call {TEL}"), {"kind": "x"}]
    with_member("load", "-", stdin=lines(*rejected), status=None)
    (item,) = with_member.json("loads", "open")
    with_member("members", "forget", ID, "--yes")
    (left,) = with_member.json("loads", "open")
    kept = [json.loads(line) for line in Path(item["path"]).read_bytes().splitlines()]
    assert [json.loads(line["record"]).get("id") for line in kept] == ["b_7", None]
    assert json.loads(kept[0]["record"])["memberId"] is None
    assert (item["lines"], left["lines"]) == (3, 2)
    assert files_with_his_data(with_member.store) == []
    # The item is closed as soon as what is left is loaded.
    with_member("load", item["path"], status=None)
    assert left["number"] not in [found["number"] for found in with_member.json("loads", "open")]


KEPT = {
    "lines.ndjson": lines(PERSON, member(OTHER), bill("b_1", amounts={"net": 10.10})),
    "array.json": json.dumps([PERSON, member(OTHER), bill("b_1")], indent=1).encode(),
    "packed.ndjson.gz": gzip.compress(lines(PERSON, member(OTHER), bill("b_1"))),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_kept_file_of_source_records_is_written_anew_with_all_others_in_it(
    with_member: Command, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "kept"
    folder.mkdir(mode=0o700)
    (folder / name).write_bytes(KEPT[name])
    (folder / name).chmod(0o640)
    if os.geteuid() == 0:
        os.chown(folder / name, 4242, 4243)
    owner = (folder / name).stat().st_uid
    found = with_member.json("members", "forget", ID, "--in", folder, "--yes")
    assert [(Path(file["path"]).name, file["lines"], file["problem"]) for file in found["files"]] == [(name, 2, None)]
    assert files_with_his_data(folder) == []
    assert ((folder / name).stat().st_mode & 0o777, (folder / name).stat().st_uid) == (0o640, owner)
    assert [path.name for path in folder.iterdir()] == [name]
    other = Command(tmp_path / "other")
    other("load", "-", stdin=lines())
    loaded = other.json("load", folder / name)
    assert loaded["added"] + loaded["unchanged"] == (5 if name != "array.json" else 2)


# Lines that a till has written badly or with fields that we do not know, and what is left of each.
ODD: list[tuple[str, str | None]] = [
    ('{"kind":"member","providerId":"mb_a","tel":"089-123-4567"}', None),
    ('{"kind":"member","id":["x"],"email":"somchai@example.test"}', None),
    ('{"kind":"member","id":"person-4711","providerId":"mb_a","na', None),
    ("Somchai 089 123 4567", None),
    ('{"kind":"bill","id":"b_9","memberId" : "person-4711",', '{"kind":"bill","id":"b_9","memberId" : null,'),
    ('{"kind":"bill","id":"b_9","note":"0891234567, plea', '{"kind":"bill","id":"b_9","note":"*, plea'),
    ('{"kind":"member","id":"person-4712","na', '{"kind":"member","id":"person-4712","na'),
    ('{"kind":"bill","id":"b_person-47112","net":1.50}', '{"kind":"bill","id":"b_person-47112","net":1.50}'),
    (
        '{"kind":"member","id":"person-4712","tel":"0891234567"}',
        '{"kind":"member","id":"person-4712","tel":"0891234567"}',
    ),
]
IN_UNKNOWN_FIELDS = [
    ('{"kind":"bill","id":"b_8","customer":{"id":"person-4711"}}', '{"kind":"bill","id":"b_8","customer":{"id":null}}'),
    ('{"kind":"bill","id":"b_8","note":"for person-4711, again"}', '{"kind":"bill","id":"b_8","note":null}'),
]


@pytest.mark.parametrize(("who", "odd"), [(ID, ODD + IN_UNKNOWN_FIELDS), (TOKEN, ODD)], ids=["ID", "token"])
def test_lines_that_no_load_could_read_are_erased_too_and_those_of_others_stay(
    with_member: Command, tmp_path: Path, who: str, odd: list[tuple[str, str | None]]
) -> None:
    """With the token alone, an ID in a field that we do not know is not found."""
    file = tmp_path / "kept" / "odd.ndjson"
    file.parent.mkdir()
    file.write_text('{"kind":"x"}\n' + "".join(f"{line}\n" for line, _ in odd))
    with_member("members", "forget", who, "--in", file.parent, "--yes")
    assert file.read_text().splitlines() == ['{"kind":"x"}', *(kept for _, kept in odd if kept is not None)]


def test_a_later_load_that_cannot_read_his_bill_rejects_it_without_his_id(with_member: Command) -> None:
    with_member("members", "forget", ID, "--yes")
    with_member("load", "-", stdin=b'{"kind":"bill","id":"b_9","memberId":"person-4711",\n', status=None)
    (item,) = with_member.json("loads", "open")
    assert item["lines"] == 1
    assert files_with_his_data(with_member.store) == []


def test_a_file_in_utf_16_is_searched(with_member: Command, tmp_path: Path) -> None:
    file = tmp_path / "kept" / "members.csv"
    file.parent.mkdir()
    file.write_text(f"Somchai,{TEL}\n", encoding="utf-16")
    found = with_member.json("members", "forget", ID, "--in", file.parent, "--yes", status=1)
    assert [Path(left["path"]).name for left in found["done"]["files"]] == ["members.csv"]


@pytest.mark.parametrize("text", ["089 123-4567", "+66 89 123 4567", "Somchai@example.TEST", ID])
def test_a_file_in_another_format_is_named_and_not_changed(with_member: Command, tmp_path: Path, text: str) -> None:
    file = tmp_path / "kept" / "members.csv"
    file.parent.mkdir()
    file.write_text(f"name,contact\nSomchai,{text}\n")
    found = with_member.json("members", "forget", ID, "--in", file.parent, "--yes", status=1)
    assert [file["problem"] for file in found["done"]["files"]] == [
        "it is not a file of source records, so it is not changed"
    ]
    assert text in file.read_text()


def test_a_repeated_command_looks_for_contacts_that_are_given_with_the_id(with_member: Command, tmp_path: Path) -> None:
    with_member("members", "forget", ID, "--yes")
    file = tmp_path / "kept" / "members.csv"
    file.parent.mkdir()
    file.write_text(f"Somchai,{TEL}\n")
    words = ("members", "forget", ID, "--tel", TEL, "--in", file.parent, "--check")
    assert [Path(found["path"]).name for found in with_member.json(*words)["files"]] == ["members.csv"]


def test_a_workbook_is_searched(with_member: Command, tmp_path: Path) -> None:
    file = tmp_path / "kept" / "members.xlsx"
    file.parent.mkdir()
    with ZipFile(file, "w", ZIP_DEFLATED) as archive:
        archive.writestr("xl/sharedStrings.xml", f"<t>{TEL}</t>")
    found = with_member.json("members", "forget", ID, "--in", file.parent, "--yes", status=1)
    assert [Path(file["path"]).name for file in found["done"]["files"]] == ["members.xlsx"]


def test_a_held_file_can_be_accepted_after_a_member_was_erased_from_it(with_member: Command, tmp_path: Path) -> None:
    name = "20260101T000000Z-0badcafe-base.ndjson"
    held = tmp_path / "drop" / "held" / name
    held.parent.mkdir(parents=True)
    held.write_bytes(lines(PERSON, member(OTHER)))
    digest = hashlib.sha256(held.read_bytes()).hexdigest()
    held.with_name(f"{name}.reason.txt").write_text(f"Odd.\nIt was delivered as base.ndjson\nSHA-256: {digest}\n")
    item = OpenItem(
        identity=name, kind="held", files={"base.ndjson": 0}, path=str(held), machine=machine_name(), digest=digest
    )
    settings = load_settings({"store": str(with_member.store)}, environment={"COUNTERFOIL_SECRET": SECRET})
    with closing(bootstrap.store(settings).ledger()) as ledger:
        ledger.add_items([item])
    with_member("members", "forget", ID, "--yes")
    assert files_with_his_data(held.parent) == []
    assert hashlib.sha256(held.read_bytes()).hexdigest() in held.with_name(f"{name}.reason.txt").read_text()
    (open_item,) = bootstrap.store(settings).reads().open_items()
    assert open_item.digest == hashlib.sha256(held.read_bytes()).hexdigest()
    with_member("loads", "accept", name)


# --- folders of other users ------------------------------------------------------------------------


SOMEBODY = 4242


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as somebody else")
def test_root_erases_lines_as_the_owner_of_each_folder(with_member: Command, tmp_path: Path) -> None:
    done = tmp_path / "done"
    done.mkdir(mode=0o700)
    file = done / "base.ndjson"
    file.write_bytes(lines(PERSON))
    os.chown(done, SOMEBODY, SOMEBODY)
    # Delivered by another user, for the group of the watcher.
    os.chown(file, SOMEBODY + 1, SOMEBODY + 2)
    file.chmod(0o640)
    for parent in (tmp_path, *tmp_path.parents):
        parent.chmod(parent.stat().st_mode | 0o011)
    with_member("members", "forget", ID, "--in", done, "--yes")
    assert files_with_his_data(done) == []
    assert (file.stat().st_uid, file.stat().st_mode & 0o777) == (SOMEBODY, 0o640)
    assert (os.geteuid(), os.getegid()) == (0, 0)


def test_a_watcher_that_keeps_files_where_nobody_said_is_named(
    with_member: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop, kept = tmp_path / "drop", tmp_path / "kept"
    (kept / "done").mkdir(parents=True)
    drop.mkdir()
    (kept / "done" / "base.ndjson").write_bytes(lines(PERSON))
    settings = load_settings({"store": str(with_member.store)}, environment={"COUNTERFOIL_SECRET": SECRET})
    with closing(bootstrap.store(settings).ledger()) as ledger:
        ledger.report_watched_folder(str(drop), 1, 0)
    found = with_member.json("members", "forget", ID, "--check")
    assert [file["problem"] for file in found["files"]] == [
        "its watcher keeps files elsewhere. Set COUNTERFOIL_KEPT, or use --in DIR for each folder"
    ]
    monkeypatch.setenv("COUNTERFOIL_KEPT", str(kept))
    (file,) = with_member.json("members", "forget", ID, "--check")["files"]
    assert (Path(file["path"]).name, file["lines"]) == ("base.ndjson", 1)


# --- what is said about others ---------------------------------------------------------------------


def test_partners_who_have_read_him_are_named_with_what_to_tell_them(tmp_path: Path) -> None:
    with closing(RunningService(tmp_path)) as service:
        service.load(*(json.loads(line) for line in lines(PERSON).splitlines()))
        erp = service.key(franchise="fr_a", label="ERP", personal_data=True)
        bi = service.key(shop="sh_1", label="BI")
        service.key(shop="sh_2", label="silent")
        service.data("members", erp, providerId="mb_a")
        service.data("members", bi, providerId="mb_a")
    counterfoil = Command(tmp_path / "store")
    found = counterfoil.json("members", "forget", ID, "--check")
    assert {(reader["label"], reader["disclosures"]) for reader in found["readers"]} == {("ERP", 1), ("BI", 0)}
    shown = counterfoil("members", "forget", ID, "--yes").stdout
    assert f"We have erased the member {TOKEN}" in shown


def test_backups_that_may_have_him_are_named_without_a_claim_that_they_do(with_member: Command, tmp_path: Path) -> None:
    with_member("backup", tmp_path / "backup")
    found = with_member("members", "forget", ID, "--yes")
    assert f"perhaps in the backup {tmp_path / 'backup'}" in found.stdout
    assert "nobody has looked into backups" in found.stderr
    assert "Restoring one brings him back" in found.stderr


# --- interrupted ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kills", [2, pytest.param(100, marks=pytest.mark.long)])
def test_a_forgetting_that_is_killed_is_finished_by_repeating_it(
    with_member: Command, tmp_path: Path, kills: int
) -> None:
    folder = tmp_path / "kept"
    folder.mkdir(mode=0o700)
    for number in range(20):
        (folder / f"{number}.ndjson").write_bytes(lines(PERSON, bill("b_1")))
    with_member("load", "-", stdin=lines(*(bill(f"b_{number}") for number in range(2_000))))
    words = ("members", "forget", ID, "--in", str(folder), "--yes")
    for kill in range(kills):
        killed_after(kill * 1.3 / kills, [*PYTHON, *words, "--store", str(with_member.store)])
    with_member(*words)
    assert files_with_his_data(folder, with_member.store) == []
    assert [mark["finishedAt"] is not None for mark in with_member.json("members", "forgotten")] == [True]
    assert bills_naming_him(with_member) == 0
    assert run_sql(with_member.store, "books", "SELECT count(*) FROM bills") == 2_000


def killed_after(seconds: float, words: list[str]) -> None:
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def test_what_was_interrupted_after_the_record_was_erased_is_finished_without_knowing_who_it_was(
    with_member: Command,
) -> None:
    settings = load_settings({"store": str(with_member.store)}, environment={"COUNTERFOIL_SECRET": SECRET})
    with closing(bootstrap.store(settings).ledger()) as ledger:
        ledger.mark_forgotten([ForgottenMember(mark=mark_of(TOKEN), at=1)])
    assert "something of a member may still be in the store" in with_member("members", "forgotten").stderr
    assert "1 member to forget by their marks" in with_member("members", "forget", "--unfinished", "--yes").stdout
    assert run_sql(with_member.store, "books", "SELECT count(*) FROM members") == 1
    assert run_sql(with_member.store, "books", "SELECT count(*) FROM forgotten_members WHERE finished_at IS NULL") == 0


@pytest.mark.parametrize(("minutes", "warns"), [(9, False), (11, True)])
def test_status_warns_of_a_forgetting_that_was_interrupted(with_member: Command, minutes: int, warns: bool) -> None:
    settings = load_settings({"store": str(with_member.store)}, environment={"COUNTERFOIL_SECRET": SECRET})
    begun_at = SystemClock().now_ms() - minutes * MINUTE_MS
    with closing(bootstrap.store(settings).ledger()) as ledger:
        ledger.mark_forgotten([ForgottenMember(mark=mark_of(TOKEN), at=begun_at)])
    found = with_member.findings("members")
    assert [finding["code"] for finding in found] == (["forgetting_unfinished"] if warns else [])
    assert not any(text in str(found) for text in (ID, TOKEN, mark_of(TOKEN)))
    with_member("members", "forget", ID, "--yes")
    assert with_member.findings("members") == []


def test_marks_that_were_kept_elsewhere_forget_again_in_an_older_store(with_member: Command, tmp_path: Path) -> None:
    with_member("backup", tmp_path / "backup")
    with_member("members", "forget", ID, "--yes")
    marks = tmp_path / "marks.json"
    marks.write_text(with_member("members", "forgotten", "--json").stdout)
    older = Command(tmp_path / "older")
    older("restore", tmp_path / "backup")
    assert run_sql(older.store, "books", "SELECT count(*) FROM members") == 2
    done = older.json("members", "forget", "--marks", marks, "--yes")["done"]
    assert done["bills"] == 1
    assert run_sql(older.store, "books", "SELECT count(*) FROM members") == 1
    assert older.json("load", "-", stdin=lines(PERSON))["forgotten"] == 1


def test_a_restore_forgets_again_who_was_forgotten_after_the_backup(with_member: Command, tmp_path: Path) -> None:
    with_member("backup", tmp_path / "backup")
    with_member("members", "forget", ID, "--yes")
    done = with_member.json("restore", tmp_path / "backup", "--replace", "--yes")
    assert done["forgottenAgain"] == 1
    assert (bills_naming_him(with_member), files_with_his_data(with_member.store)) == (0, [])
    assert with_member.json("load", "-", stdin=lines(PERSON))["forgotten"] == 1
    elsewhere = Command(tmp_path / "elsewhere")
    shown = elsewhere("restore", tmp_path / "backup").stdout
    assert "Members who were forgotten after" in shown


# --- phone numbers ------------------------------------------------------------------------------------------


def written() -> Iterator[tuple[str, bool]]:
    yield from ((text, True) for text in ("0891234567", "089-123-4567", "+66 89 123 4567", "66891234567", "891234567"))
    yield from ((text, False) for text in ("0891234568", "10891234567", "08912345670", "089123456"))


@pytest.mark.parametrize(("text", "is_found"), list(written()))
def test_a_phone_number_is_found_however_it_is_written(text: str, is_found: bool) -> None:
    contacts = Contacts(Person(token="", tels=frozenset({TEL})))
    assert contacts.are_in(f"Call {text}, please") is is_found
    assert contacts.are_in_bytes(f"Call {text}, please".encode()) is is_found
