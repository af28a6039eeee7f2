"""Tests for the tools of `counterfoil mcp`, some with the MCP SDK's own client and a real server process."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

import records as r
from assistants.assistant import Assistant, Refused, questions, with_assistant
from assistants.conftest import CANARIES
from cli.command import Command
from client.pulled_copy import Copy
from client.targets import held_open_by_a_writer
from counterfoil.client.assistant import sources
from counterfoil.client.assistant.questions import MAX_ROWS, Questions
from counterfoil.client.assistant.sources import PUBLISHED, CopyError, CopyLocked, QueryRefused
from counterfoil.client.pull_state import FORMAT
from running_service import RunningService

TOOLS = {"copy_state", "list_shops", "sales", "product_mix", "find_bill", "member_summary", "query"}


@pytest.fixture(scope="module")
def ask(pulled_file: Path) -> Iterator[Questions]:
    """A `Questions` object for one snapshot of `pulled_file`. Tests must change neither the snapshot nor the file."""
    with questions(pulled_file) as ask:
        yield ask


# --- the protocol --------------------------------------------------------------------


@pytest.mark.programs
def test_every_tool_is_marked_as_read_only_and_explained(file: Path) -> None:
    async def talk(assistant: Assistant) -> None:
        tools = (await assistant.client.list_tools()).tools
        assert {tool.name for tool in tools} == TOOLS
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
        assert all(tool.description for tool in tools)
        assert len(json.dumps([tool.model_dump(mode="json") for tool in tools])) < 16_000

    with_assistant(file, talk)


@pytest.mark.programs
def test_answers_about_sales_products_bills_and_shops_say_how_current_they_are(
    file: Path, copy: Copy, branch: r.Record
) -> None:
    server_time = copy.service.get("shops", copy.key).json()["serverTime"]

    async def talk(assistant: Assistant) -> None:
        sales = await assistant.ask("sales", group_by=["day", "shop"], first_day="2026-01-01", last_day="2026-01-02")
        assert [(row["day"], row["bills"], row["voids"], row["revenue"]) for row in sales["groups"]] == [
            ("2026-01-01", 2, 1, "120.20"),
            ("2026-01-02", 1, 0, "0.20"),
        ]
        assert sales["totals"]["net"] == "140.40"
        assert sales["totals"]["tips"] == "20.00"
        mix = await assistant.ask("product_mix")
        assert [(row["name"], row["quantity"], row["total"]) for row in mix["products"]] == [("Soup", "7.00", "480.30")]
        found = await assistant.ask("find_bill", bill_id="b-1")
        [bill] = found["bills"]
        assert bill["net"] == "140.10"
        assert [line["unit_price"] for line in bill["items"]] == ["60.05", "120.00"]
        assert bill["payments"] == [{"name": "Cash", "amount": "120.00", "change": "0.00"}]
        shops = await assistant.ask("list_shops")
        assert [(shop["shopId"], shop["bills"]) for shop in shops["shops"]] == [(branch["id"], 5)]
        summary = await assistant.ask("member_summary")
        assert [(row["rank"], row["members"], row["points"]) for row in summary["ranks"]] == [("gold", 1, "100.00")]
        for answer in (sales, mix, found, shops, summary, await assistant.ask("query", sql="SELECT 1")):
            assert answer["asOf"] == server_time

    with_assistant(file, talk)


@pytest.mark.programs
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_stopped_ends_at_once_and_leaves_no_files(
    number: signal.Signals, file: Path, tmp_path: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    server = subprocess.Popen(
        [sys.executable, "-m", "counterfoil", "mcp", "--copy", file],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(temporary)},
    )
    assert server.stdin
    assert server.stdout
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "copy_state", "arguments": {}}},
    ]
    for message in messages:
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        server.stdin.flush()
    answers = [json.loads(server.stdout.readline()) for _ in range(2)]
    assert answers[1]["result"]["structuredContent"]["rows"]["bills"] == 5
    assert list(temporary.rglob("*"))
    assert [path for path in temporary.rglob("*") if path.is_file()] == []
    server.send_signal(number)
    assert server.wait() == -number
    assert list(temporary.iterdir()) == []
    server.communicate()


# --- privacy ---------------------------------------------------------------------------


def test_no_column_with_personal_data_or_free_text_is_published() -> None:
    withheld = "tel email member_id labels persona created_date cashier table_name void_reason tax_number code"
    published = {column.name for table in PUBLISHED.values() for column in table.columns}
    assert published.isdisjoint(withheld.split())
    assert "coupons" not in PUBLISHED


def test_neither_an_answer_nor_the_snapshot_contains_personal_data(file: Path, copy: Copy, tmp_path: Path) -> None:
    held = str(copy.held())
    assert all(canary in held for canary in CANARIES.values())
    hidden = [*CANARIES.values(), copy.service.token("m-1")]
    snapshot = tmp_path / "snapshot.duckdb"
    with duckdb.connect(str(snapshot)) as db:
        sources.fill(db, file, tmp_path / "rows.ndjson")
    stored = snapshot.read_bytes()
    assert b"Riverside" in stored
    assert [text for text in hidden if text.encode() in stored] == []
    with questions(file) as ask:
        answers: list[Any] = [ask.copy_state(), ask.list_shops(MAX_ROWS), ask.member_summary(MAX_ROWS)]
        answers += [ask.sales([group], limit=MAX_ROWS) for group in ("day", "hour", "shop", "channel")]
        answers += [ask.find_bill(bill_id, None) for bill_id in ("b-1", "b-4")]
        tables = [row[0] for row in ask.query("SELECT table_name FROM duckdb_tables()", MAX_ROWS)["rows"]]
        assert sorted(tables) == sorted(PUBLISHED)
        answers += [ask.query(f"FROM {table}", MAX_ROWS) for table in tables]
    written = json.dumps(answers, ensure_ascii=False)
    assert "b-1" in written
    assert [text for text in hidden if text in written] == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1; DROP TABLE bills",
        "DROP TABLE bills",
        "INSERT INTO shops (shop_id) VALUES ('x')",
        "UPDATE bills SET net = 0",
        "WITH x AS (SELECT 1) DELETE FROM bills",
        "CREATE TABLE mine AS SELECT 1",
        "ATTACH '{file}' AS pulled (READ_ONLY)",
        "FROM '{file}'",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_blob('{file}')",
        "SELECT * FROM glob('/*')",
        "COPY bills TO '{folder}/out.csv'",
        "EXPORT DATABASE '{folder}/out'",
        "SET enable_external_access = true",
        "PRAGMA database_list",
        "INSTALL httpfs",
        "CALL pragma_version()",
        "SELECT * FROM pulled.members",
        "SELECT email FROM members",
        "SELECT getenv('HOME')",
        "SELECT * FROM query('ATTACH ''{file}'' AS pulled')",
        "SELECT * FROM sniff_csv('{file}')",
        "",
        "no SQL at all",
    ],
)
def test_a_statement_that_writes_or_reads_other_files_is_refused(
    sql: str, ask: Questions, pulled_file: Path, tmp_path: Path
) -> None:
    before = pulled_file.read_bytes()
    with pytest.raises(QueryRefused):
        ask.query(sql.format(file=pulled_file, folder=tmp_path), MAX_ROWS)
    assert ask.query("SELECT count(*) FROM bills", 1)["rows"] == [[5]]
    assert pulled_file.read_bytes() == before
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("text", ["b-1' OR '1'='1", "'; DROP TABLE bills; --", '" OR 1=1', "\0", "%"])
def test_values_in_arguments_never_become_sql(text: str, ask: Questions) -> None:
    assert ask.find_bill(text, None)["bills"] == []
    assert ask.find_bill(None, text)["bills"] == []
    with pytest.raises(QueryRefused, match="is not in this copy"):
        ask.sales(["day"], shop_ids=[text], limit=10)
    with pytest.raises(QueryRefused, match="is not in this copy"):
        ask.find_bill(None, "R-1", [text])
    assert ask.copy_state()["rows"]["bills"] == 5


# --- figures -----------------------------------------------------------------------------


def test_sums_of_money_are_exact(ask: Questions) -> None:
    answer = ask.query("SELECT sum(net), avg(net) FROM bills WHERE id IN ('b-2', 'b-3')", 10)
    assert answer["rows"] == [["0.30", "0.15"]]
    totals = {"bills": 4, "voids": 1, "net": "147.40", "tips": "20.00", "revenue": "127.40", "discounts": "0.00"}
    assert ask.sales((), limit=1)["totals"] == totals


def test_hours_and_months_are_in_the_time_zone_of_the_shop(ask: Questions) -> None:
    hours = {row["hour"]: row["bills"] for row in ask.sales(["hour"], limit=100)["groups"]}
    assert hours == {12: 2, 18: 1, None: 1}
    months = {row["month"]: row["bills"] for row in ask.sales(["month"], limit=100)["groups"]}
    assert months == {"2026-01": 3, None: 1}


def test_a_long_answer_is_truncated_and_says_so(ask: Questions) -> None:
    few = ask.query("FROM range(1000)", 10)
    assert (len(few["rows"]), few["truncated"]) == (10, True)
    wide = ask.query("SELECT repeat('x', 900) FROM range(500)", MAX_ROWS)
    assert wide["truncated"]
    assert len(json.dumps(wide)) < sources.MAX_ANSWER_BYTES + 2_000


# DuckDB's own memory limit stops the first query. Only the memory limit of the process stops the other queries.
TOO_LARGE = (
    "SELECT list(range) FROM range(100000000)",
    "SELECT repeat('x', 2000000000)",
    "SELECT repeat('x', 20000000 + range) FROM range(200)",
)


@pytest.mark.programs
def test_a_query_that_needs_too_much_memory_is_refused_and_the_server_continues(file: Path) -> None:
    async def talk(assistant: Assistant) -> None:
        for sql in TOO_LARGE:
            with pytest.raises(Refused, match="needs more than 512 MB of memory"):
                await assistant.ask("query", sql=sql)
            assert (await assistant.ask("query", sql="SELECT count(*) FROM bills"))["rows"] == [[5]]
        assert peak_memory_mb(file) < sources.PROCESS_MB

    with_assistant(file, talk)


def peak_memory_mb(file: Path) -> int:
    """Return the peak memory of the server process that reads this copy."""
    [status] = [
        (command.parent / "status").read_text("utf-8")
        for command in Path("/proc").glob("[0-9]*/cmdline")
        if f"\0--copy\0{file}\0".encode() in read_if_possible(command)
    ]
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) // 1024


def read_if_possible(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # The process has ended.
        return b""


# --- copies that change -------------------------------------------------------------------


def test_an_answer_after_the_next_pull_is_from_the_new_copy(
    file: Path, copy: Copy, branch: r.Record, service: RunningService
) -> None:
    with questions(file) as ask:
        assert ask.sales((), limit=1)["totals"]["bills"] == 4
        service.clock.advance(60)
        service.load(r.bill(branch))
        copy.pull()
        answer = ask.sales((), limit=1)
    assert answer["totals"]["bills"] == 5
    assert answer["asOf"] > "2026-01-01T00:01:00"


def test_a_pull_can_write_and_answers_then_use_the_earlier_data_if_there_is_any_and_say_so(file: Path) -> None:
    with questions(file) as ask:
        with held_open_by_a_writer(file), pytest.raises(CopyLocked, match="A pull is writing"):
            ask.copy_state()
        assert ask.copy_state()["rows"]["bills"] == 5
        with held_open_by_a_writer(file):
            answer = ask.sales((), limit=1)
            assert answer["note"] == sources.PULL_RUNNING
            assert answer["totals"]["bills"] == 4
        assert "note" not in ask.sales((), limit=1)


def test_answers_include_rows_that_a_killed_pull_committed(file: Path) -> None:
    source = (
        "import duckdb, os, sys; db = duckdb.connect(sys.argv[1]);"
        "db.execute(\"INSERT INTO shops (shop_id, in_scope, copied_at) VALUES ('committed', true, now())\");"
        "os._exit(9)"
    )
    with questions(file) as ask:
        before = ask.copy_state()["rows"]["shops"]
        assert subprocess.run([sys.executable, "-c", source, file], check=False).returncode == 9
        log = file.with_name(f"{file.name}.wal")
        assert log.exists()
        assert ask.copy_state()["rows"]["shops"] == before + 1
        assert log.exists()


NOW = "2026-01-03T00:00:00.000Z"
PASSED = "2026-01-02T00:00:00.000Z"
FEED = {"mark": "x", "as_of": NOW}


@contextlib.contextmanager
def with_progress(file: Path, *statements: str, **progress: Any) -> Iterator[Questions]:
    """Change the copy and its progress, and yield a `Questions` object for it."""
    with duckdb.connect(str(file)) as db:
        for statement in statements:
            db.execute(statement)
        db.execute("UPDATE pull_state SET state = ?", [json.dumps({"format": FORMAT} | progress)])
    with questions(file) as ask:
        yield ask


@pytest.mark.parametrize(
    ("feed", "as_of", "is_complete"),
    [({"cursor": "c"}, None, False), ({"cursor": "c", "earlier": NOW}, NOW, True)],
    ids=["first pass", "everything again"],
)
def test_answers_are_as_of_the_last_complete_pass_and_list_shops_without_one_as_incomplete(
    file: Path, branch: r.Record, feed: dict[str, str], as_of: str | None, is_complete: bool
) -> None:
    with with_progress(file, feed=feed) as ask:
        answer = ask.sales((), limit=1)
    assert answer["asOf"] == as_of
    assert answer.get("incompleteShops") == (None if is_complete else [branch["id"]])


@pytest.mark.parametrize("progress", [{}, {"b-new": {"began": NOW, "cursor": "c"}}], ids=["not begun", "interrupted"])
def test_a_base_whose_first_pass_has_not_ended_is_listed_as_incomplete(
    file: Path, branch: r.Record, progress: dict[str, Any]
) -> None:
    with questions(file) as ask:
        assert "incompleteBases" not in ask.member_summary(10)
        assert "incompleteBases" not in ask.copy_state()
    other = "INSERT INTO shops SELECT * REPLACE ('sh-new' AS shop_id, 'b-new' AS provider_id) FROM shops LIMIT 1"
    with with_progress(file, other, feed=FEED, bases={branch["providerId"]: {"passed": PASSED}} | progress) as ask:
        summary, copy_state, query = ask.member_summary(10), ask.copy_state(), ask.query("SELECT 1", 1)
    assert (summary["asOf"], summary["incompleteBases"]) == (PASSED, ["b-new"])
    assert (copy_state["membersAsOf"], copy_state["incompleteBases"]) == (PASSED, ["b-new"])
    # Members are read less often than bills.
    assert (query["asOf"], query["membersAsOf"]) == (NOW, PASSED)


def test_a_base_that_is_no_longer_listed_counts_as_long_as_the_copy_has_its_members(
    file: Path, branch: r.Record
) -> None:
    bases = {branch["providerId"]: {}, "b-other": {"passed": PASSED}}
    with with_progress(file, "UPDATE shops SET provider_id = 'b-other'", bases=bases) as ask:
        assert ask.member_summary(10)["incompleteBases"] == [branch["providerId"]]
    with with_progress(file, "UPDATE members SET removed_at = now()", bases=bases) as ask:
        assert "incompleteBases" not in ask.member_summary(10)


def test_answers_from_a_copy_of_a_part_of_the_data_say_which_part(file: Path) -> None:
    with with_progress(file, feed=FEED, selection={"since": "2026-01-01"}) as ask:
        answer, members = ask.sales((), limit=1), ask.member_summary(1)
    assert answer["asOf"] == NOW
    assert answer["copyContainsOnly"] == members["copyContainsOnly"] == {"since": "2026-01-01"}
    assert "incompleteShops" not in answer


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("ALTER TABLE bills DROP COLUMN service_type", "counterfoil pull"),
        ("DROP TABLE payments", "counterfoil pull"),
        ("DELETE FROM bill_items", "counterfoil pull"),
        ("DELETE FROM shops", "counterfoil pull"),
        ("UPDATE pull_state SET state = '{\"format\": 99}'", "reads only format"),
        ("DROP TABLE pull_state", "was not written by"),
    ],
)
def test_a_copy_that_has_lost_something_or_is_of_another_release_is_refused_and_leaves_no_snapshot(
    file: Path, statement: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with duckdb.connect(str(file)) as db:
        db.execute(statement)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with questions(file) as ask:
        with pytest.raises(CopyError, match=message):
            ask.sales([], limit=10)
        assert not list(tmp_path.glob("counterfoil-mcp-*/*"))


def test_instants_are_in_utc_and_local_times_have_no_zone(ask: Questions) -> None:
    statement = """
        SELECT timestamp, local_time, [timestamp], now() > timestamp FROM bills WHERE timestamp IS NOT NULL -- a comment
    """
    instant, local_time, instants, is_past = ask.query(statement, 1)["rows"][0]
    assert instant.endswith("Z")
    shift = datetime.fromisoformat(local_time) - datetime.fromisoformat(instant).replace(tzinfo=None)
    assert shift == timedelta(hours=7)
    assert instants == f"['{instant[:10]} {instant[11:19]}+00']"
    assert isinstance(is_past, bool)


# --- other kinds of files -------------------------------------------------------------------


@pytest.mark.parametrize("content", [None, b"no database at all", b"SQLite format 3\0" + bytes(4080)])
def test_a_file_that_is_not_a_copy_is_reported_in_one_sentence(content: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "other"
    if content is not None:
        file.write_bytes(content)
    with questions(file) as ask, pytest.raises(CopyError, match="other"):
        ask.copy_state()


def test_the_command_reports_a_missing_copy_and_exits(tmp_path: Path) -> None:
    done = Command(tmp_path).bare("mcp", "--copy", tmp_path / "none.duckdb", status=1)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "run `counterfoil pull` first" in done.stderr
