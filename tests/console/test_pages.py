"""Every page shows its data, serves the same data as JSON, and names the command that prints it."""

import csv
import io
import re
import shlex
import socket
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from html import unescape
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from cli.command import Command
from console.conftest import InUse
from console.running_console import PAGES, Operator, RunningConsole
from counterfoil.checks.running import TIMED_OUT
from counterfoil.console import visit
from counterfoil.console.charts import MEASURED_FROM
from counterfoil.console.display import change
from counterfoil.console.pages import audit
from counterfoil.console.pages.loads import RUN_FROM
from counterfoil.domain.loads import RejectedLine
from counterfoil.domain.open_items import OpenItem
from counterfoil.model.calendar import DAY_MS, iso_utc
from counterfoil.model.text import csv_text
from counterfoil.program.main import program
from records import bill, branch
from running_service import SECRET

COMMANDS = {
    "/": "status",
    "/keys": "keys list --active",
    "/loads": "loads open",
    "/requests": "requests",
    "/shops": "shops",
    "/store": "status --deep --json",
    "/devices": "console devices --all",
    "/audit": "audit",
    "/personal-data": "usage --disclosures",
}


@pytest.mark.parametrize("language", ["en", "th"])
def test_every_page_is_well_formed_also_if_the_store_is_empty(
    console: RunningConsole, shared: InUse, language: str
) -> None:
    new = console.operator("alice", language)
    for path in PAGES:
        assert f'<html lang="{language}">' in new.page(path)
    for path in (*PAGES, f"/keys/{shared.key_id}", f"/requests?request={shared.ids['wrong']}", "/loads/2"):
        assert f'<html lang="{language}">' in shared.alice.page(path, **{"accept-language": language})


def test_every_page_links_to_its_data_as_json_and_names_the_command_that_prints_it(shared: InUse) -> None:
    for path, command in COMMANDS.items():
        page, json_address = shared.alice.page(path), "/today.json" if path == "/" else f"{path}.json"
        assert f'href="{json_address}"' in page
        assert isinstance(shared.alice.json(json_address), dict)
        assert f'<code class="command">counterfoil {command}</code>' in page


def test_the_commands_that_the_pages_about_keys_name_can_be_run(shared: InUse) -> None:
    command = Command(shared.console.settings.store)
    for path, count in (("/keys", 2), (f"/keys/{shared.key_id}", 5)):
        exports = shared.alice.page(path).partition('class="export"')[2]
        named = re.findall(r'<code class="command">counterfoil ([^<]+)</code>', exports)
        assert len(named) == count
        for words in named:
            assert shared.key_id in command(*words.split()).stdout


def test_times_are_in_thailand_time_with_utc_as_a_tooltip(shared: InUse) -> None:
    page = shared.alice.page("/requests")
    exact = 'datetime="2026-01-01T00:00:00.000Z" title="2026-01-01 07:00:00 +07 · 2026-01-01 00:00:00 UTC"'
    assert f"<time {exact}>2026-01-01 07:00:00</time>" in page
    assert f'<time {exact} tabindex="0">' in shared.alice.page(f"/keys/{shared.key_id}")
    assert "Times are in Thailand time;" in page


# --- requests --------------------------------------------------------------------


def test_a_request_is_found_by_its_id(shared: InUse) -> None:
    wrong = shared.ids["wrong"]
    (found,) = shared.alice.json(f"/requests.json?request={wrong}")["requests"]
    assert (found["requestId"], found["status"], found["error"]) == (wrong, 403, "shop_not_in_scope")
    page = shared.alice.page(f"/requests?request={wrong}")
    assert "What the integrator should do" in page
    assert f'data-text="{wrong}"' in page


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("error=shop_not_in_scope", {"wrong"}),
        ("status=200", {"bills", "members", "changes"}),
        ("route=members", {"members"}),
        ("slower=60000", set()),
        ("since=2026-01-01T07:00", {"bills", "members", "wrong", "changes"}),
        ("until=2026-01-01T07:00", set()),
        ("since=2026-01-01T00:00:00Z&status=403", {"wrong"}),
        ("key=AAAAAAAAAAAA", set()),
    ],
)
def test_requests_are_filtered_on_the_page_and_in_its_export(shared: InUse, query: str, found: set[str]) -> None:
    shown = {row["requestId"] for row in shared.alice.json(f"/requests.json?{query}")["requests"]}
    exported = {row["request_id"] for row in shared.alice.csv(f"/requests.csv?{query}")}
    assert shown == exported == {shared.ids[name] for name in found}


def test_pages_of_requests_are_complete_and_do_not_overlap_and_keep_the_filter(shared: InUse) -> None:
    found: list[str] = []
    address = "/requests.json?limit=1"
    for _ in range(4):
        view = shared.alice.json(address)
        found += [row["requestId"] for row in view["requests"]]
        address = f"/requests.json?limit=1&before={view['next']}"
    assert sorted(found) == sorted(shared.ids.values())
    page = shared.alice.page("/requests?status=200&limit=1")
    (older,) = re.findall(r'href="(/requests\?[^"]*before[^"]*)"', page)
    assert "status=200" in older


@pytest.mark.parametrize("path", ["/keys", "/requests", "/shops", "/loads", "/loads/2", "/personal-data", "/audit"])
def test_every_list_is_exported_as_csv_and_json(shared: InUse, path: str) -> None:
    page = shared.alice.page(path)
    for kind in ("csv", "json"):
        assert f'href="{path}.{kind}"' in page
        assert shared.alice.get(f"{path}.{kind}").status_code == 200
    # In a row of another length, a column has no name, or a name no column.
    assert not any(None in (*row, *row.values()) for row in shared.alice.csv(f"{path}.csv"))


def test_keys_are_exported_with_their_use(console: RunningConsole, used: InUse) -> None:
    console.service.key(shop=used.shop["id"], label="@SUM(1)")
    erp, attack = used.alice.csv("/keys.csv")
    assert (erp["label"], erp["scope_id"], erp["permissions"]) == ("ERP", used.shop["id"], "personal-data")
    assert (erp["requests_today"], erp["errors_7_days"]) == ("4", "1")
    assert erp["last_used_utc"].startswith("2026-01-01T00:00")
    assert attack["label"] == "'@SUM(1)"
    assert used.alice.csv("/keys.csv?show=revoked") == []


def test_rejected_lines_are_exported_without_their_values(console: RunningConsole, alice: Operator) -> None:
    console.service.load(branch(), b'{"kind":"bill","tel":"0811111111"}', b"[]")
    answer = alice.get("/loads/1.csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="load-1-rejects-2026-01-01.csv"'
    assert b"0811111111" not in answer.content
    rows = alice.csv("/loads/1.csv")
    assert [(row["line"], row["reason"]) for row in rows] == [("2", "no_id"), ("3", "not_json")]


@pytest.mark.parametrize("sign", "=+-@＝＋－＠﹦\N{MINUS SIGN}")
@pytest.mark.parametrize("before", ["", " ", "\n", "\r", "\t", "\0", "\ufeff", "\u3000", "\N{NO-BREAK SPACE}"])
def test_text_that_a_spreadsheet_reads_as_a_formula_is_exported_as_text(before: str, sign: str) -> None:
    text = f"{before}{sign}1+cmd"
    written = csv_text([[text, "x"]], "\r\n")
    assert next(csv.reader(io.StringIO(written, newline=""))) == [f"'{text}", "x"]


@pytest.mark.parametrize("value", [-5, 5, -1.5, True, "-5", "-5.25", "", " ", "a=b", "a\n=b", "2026-01-01", "'=1"])
def test_numbers_and_other_text_are_exported_unchanged(value: object) -> None:
    assert next(csv.reader(io.StringIO(csv_text([[value, "x"]], "\n"), newline=""))) == [str(value), "x"]


# --- the other pages -----------------------------------------------------------------


def test_today_counts_requests_and_errors(shared: InUse) -> None:
    view = shared.alice.json("/today.json")
    today = view["days"][-1]
    assert (today["day"], today["requests"], today["errors"]) == ("2026-01-01", 4, 1)
    assert [(key["label"], key["today"]) for key in view["keys"]] == [("ERP", 4)]


EXPORT = Path(__file__).parents[2] / "docs" / "examples" / "loyverse-receipts.csv"


def test_today_shows_the_first_steps_while_the_store_is_empty_and_their_commands_under_export(alice: Operator) -> None:
    page = alice.page("/")
    commands = [shlex.split(unescape(text)) for text in re.findall(r'<code class="command">([^<]+)</code>', page)]
    # The service does not run.
    assert [words[1] for words in commands] == ["import", "load", "keys", "serve"]
    steps = page.partition('class="start"')[2]
    assert 'href="/imports"' in steps
    assert 'href="/keys/new"' in steps
    assert steps.count("<code") == 1
    for words in commands:
        assert words[-2:] == ["--store", str(alice.console.settings.store)]
        named = words[1:3] if words[1] == "keys" else words[1:2]
        shown = CliRunner().invoke(program, [*named, "--help"])
        assert [word for word in words if word.startswith("--") and word not in shown.output] == []
    imported = [str(EXPORT) if word == "FILE" else word for word in commands[0][1:]]
    result = CliRunner().invoke(program, imported, env={"COUNTERFOIL_SECRET": SECRET})
    assert result.exit_code == 0, result.output
    assert "added      " in result.output
    issued = CliRunner().invoke(program, commands[2][1:], env={"COUNTERFOIL_SECRET": SECRET})
    assert issued.exit_code == 0, issued.output
    alice.console.clock.advance(3)
    assert 'class="start"' not in alice.page("/")


def test_pages_whose_figures_change_say_when_they_were_taken_and_are_updated(alice: Operator) -> None:
    alice.console.service.load(branch())
    page = alice.page("/")
    assert ">As of 07:00:00<" in page
    assert 'data-refresh="60"' in page
    loads = alice.page("/loads")
    assert "data-refresh" not in loads
    assert "counterfoil loads</code>" in loads
    alice.console.service.ledger.apply([], alice.console.service.ledger.begin_load("bills.ndjson"))
    assert 'data-refresh="5"' in alice.page("/loads")


def test_the_pages_today_and_store_have_the_same_findings(console: RunningConsole, alice: Operator) -> None:
    console.service.load(branch(), b'{"kind":"bill"}')
    console.service.ledger.advance_horizon()
    (console.settings.store / "books.sqlite3").chmod(0o644)
    today, store = alice.json("/today.json"), alice.json("/store.json")
    assert today["findings"] == store["checks"]
    wrong = [finding["message"] for finding in store["checks"] if finding["status"] != "ok"]
    assert wrong == [
        "Still rejected: 1 line of 1 load, the oldest for 0 seconds. Latest: test.",
        "Other users of this machine can open this database.",
    ]
    for path in ("/", "/store"):
        page = alice.page(path)
        assert all(message in page for message in wrong)
        assert '<a href="/loads">Open the page Loads.</a>' in page
        assert "Read the reasons on the page of the load" in page
    assert "Checks that need attention: 2" in alice.page("/store")


def test_a_service_that_nobody_could_have_read_from_is_no_alarm(console: RunningConsole, alice: Operator) -> None:
    assert "Nothing has been loaded into this store or served from it yet." in alice.page("/keys")
    console.service.load(branch())
    console.clock.advance(60)
    for path in ("/", "/keys"):
        page = alice.page(path)
        assert "no key has been issued yet that could read from it" in page
        assert 'class="notice bad"' not in page
    assert "counterfoil serve --store" in alice.page("/keys")


def test_every_page_says_that_the_service_is_down_and_what_to_do(console: RunningConsole, alice: Operator) -> None:
    here = branch()
    console.service.key_for(here)
    console.service.ledger.advance_horizon()
    assert alice.get("/service-banner").text == ""
    assert "The API is not available." not in alice.page("/keys")
    assert "Everything is well." in alice.page("/")
    console.clock.advance(60)
    today = alice.page("/")
    assert "Something is wrong:" in today
    assert "The horizon is not moving." in today
    assert "The API is not available." in alice.get("/service-banner").text
    for path in ("/keys", "/requests", "/shops", "/loads", "/personal-data", "/audit", "/nowhere"):
        page = alice.get(path).text
        assert "The API is not available." in page
        assert "Run <code>counterfoil serve</code>" in page
    console.service.ledger.advance_horizon()
    console.clock.advance(3)
    assert "The API is not available." not in alice.page("/keys")


def test_pages_share_one_short_wait_for_a_service_that_hangs(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=16) as hung:
        hung.setblocking(False)
        console = RunningConsole(tmp_path, admin_port=hung.getsockname()[1])
        console.service.load(branch())
        console.service.ledger.advance_horizon()
        alice = console.operator("alice")

        def times_asked_for(*paths: str) -> int:
            for path in paths:
                assert str(TIMED_OUT) in alice.get(path).text
            accepted = 0
            with suppress(BlockingIOError):
                while True:
                    hung.accept()[0].close()
                    accepted += 1
            return accepted

        assert times_asked_for("/", "/keys", "/store", "/shops") == 1
        console.clock.advance(visit.REMEMBERED_SEC - 1)
        assert times_asked_for("/", "/keys") == 0
        console.clock.advance(visit.SHARED_SEC)
        assert times_asked_for("/keys", "/service-banner") == 1
        console.close()


def test_a_silent_shop_comes_first(console: RunningConsole) -> None:
    quiet, busy = branch(name="Quiet"), branch(name="Busy")
    # Each week is delivered when it ends.
    for week in range(5):
        console.clock.advance(7 * DAY_MS / 1000)
        instants = [console.clock.now_ms() - minute * 60_000 for minute in range(30, 90, 5)]
        shops = (quiet, busy) if week < 4 else (busy,)
        console.service.load(quiet, busy, *[bill(of, closedAt=iso_utc(at)) for of in shops for at in instants])
    alice = console.operator()
    view = alice.json("/shops.json")
    assert [(shop["name"], shop["state"]) for shop in view["shops"]] == [("Quiet", "silent"), ("Busy", "open")]
    assert "Shops that have been silent for longer than usual: 1." in alice.page("/shops")
    assert "Quiet" in alice.page("/")


def test_the_page_of_a_key_shows_errors_with_advice(shared: InUse) -> None:
    view = shared.alice.json(f"/keys/{shared.key_id}.json")
    (error,) = view["errors"]
    assert (error["error"], error["route"], error["count"]) == ("shop_not_in_scope", "transactions", 1)
    assert error["action"].startswith("Call `GET /v1/shops`")
    assert len(view["days"]) == 400
    assert view["days"][-1]["requests"] == 4
    assert sum(hour["requests"] for hour in view["hours"]) == 4


@pytest.mark.parametrize(("range_", "count"), [("24h", 24), ("7d", 7), ("30d", 30), ("90d", 90), ("400d", 400)])
def test_charts_show_requests_errors_and_durations_of_a_range(shared: InUse, range_: str, count: int) -> None:
    for path in (f"/keys/{shared.key_id}", "/today"):
        use = shared.alice.json(f"{path}.json?range={range_}")["use"]
        assert (len(use["slots"]), use["measured"]) == (count, 4)
        last = use["slots"][-1]
        assert (last["requests"], last["errors"]) == (4, 1)
        assert (last["medianMs"] > 0, last["p95Ms"]) == (True, None)


def test_a_percentile_is_shown_of_20_requests_and_not_of_fewer(console: RunningConsole, used: InUse) -> None:
    key = console.service.key(shop=used.shop["id"])
    for _ in range(MEASURED_FROM):
        console.service.get("shops", key)
    console.service.restart()
    last = used.alice.json("/today.json?range=24h")["use"]["slots"][-1]
    assert 0 < last["medianMs"] <= last["p95Ms"]


@pytest.mark.parametrize(("chart", "count"), [(0, 4), (1, 1), (2, 4)], ids=["requests", "errors", "durations"])
def test_a_bar_leads_to_the_requests_of_its_day(shared: InUse, chart: int, count: int) -> None:
    figure = shared.alice.page(f"/keys/{shared.key_id}").split("<figure")[chart + 1].partition("</figure>")[0]
    address = unescape(re.findall(r'href="([^"]*)"', figure)[-1])
    assert len(shared.alice.json(address.replace("/requests?", "/requests.json?"))["requests"]) == count
    before = unescape(re.findall(r'href="([^"]*)"', figure)[-2])
    assert shared.alice.json(before.replace("/requests?", "/requests.json?"))["requests"] == []


def test_a_day_whose_requests_are_no_longer_recorded_has_no_link(shared: InUse) -> None:
    page = shared.alice.page(f"/keys/{shared.key_id}?range=400d")
    assert page.count('class="slot') == 3 * 400
    assert page.partition("<figure")[2].partition("</figure>")[0].count("<a ") == 91


def test_requests_are_compared_with_the_range_before_up_to_the_same_time_of_day(
    console: RunningConsole, used: InUse
) -> None:
    path = f"/keys/{used.key_id}"

    def before(span: str) -> int | None:
        found: int | None = console.operator().json(f"{path}.json?range={span}")["use"]["before"]
        return found

    def yesterday() -> object:
        return console.operator().json("/today.json")["yesterdayByNow"]

    assert (before("7d"), yesterday()) == (0, 0)
    assert "none in the 7 days before" in used.alice.page(f"{path}?range=7d")
    console.clock.advance(DAY_MS // 1000 + 1)
    assert yesterday() == 4
    console.clock.step(-60)
    assert yesterday() == 0
    console.clock.advance(6 * DAY_MS // 1000 + 60)
    assert before("7d") == 4
    console.clock.step(-60)
    assert (before("7d"), before("90d")) == (0, None)


@pytest.mark.parametrize(("now", "before", "shown"), [(108, 100, "8%"), (1, 3, "67%"), (1000, 1001, "<1%")])
def test_a_difference_is_never_shown_as_zero(now: int, before: int, shown: str) -> None:
    assert change(now, before) == shown


def test_loads_of_the_same_state_in_a_row_are_one_row_that_opens(console: RunningConsole, alice: Operator) -> None:
    shop = branch()
    for number in range(RUN_FROM):
        console.service.load(shop, bill(shop, id=f"b{number}"))
    console.service.load(shop, b"not JSON")

    def rows(path: str) -> int:
        return len(re.findall('<a href="/loads/[0-9]+"><time', alice.page(path)))

    page = alice.page("/loads")
    assert rows("/loads") == 1
    assert f">{RUN_FROM} loads</a>" in page
    (opened,) = set(re.findall(r'href="(/loads\?run=[0-9]+)"', page))
    assert rows(opened) == RUN_FROM + 1
    assert rows("/loads?sort=lines") == RUN_FROM + 1
    assert len(alice.json("/loads.json")["loads"]) == RUN_FROM + 1


def test_the_audit_page_says_that_it_covers_only_the_newest_entries(
    console: RunningConsole, alice: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    console.operator("bob")
    monkeypatch.setattr(audit, "MOST", 1)
    page = alice.page("/audit?sort=at")
    assert "The CSV has all." in page
    assert len(alice.csv("/audit.csv")) > 1
    monkeypatch.undo()
    assert "The CSV has all." not in alice.page("/audit?sort=at")


def test_disclosures_are_listed_and_exported(shared: InUse) -> None:
    view = shared.alice.json("/personal-data.json")
    assert [(key["label"], key["requests"], key["members"]) for key in view["byKey"]] == [("ERP", 1, 1)]
    (row,) = shared.alice.csv("/personal-data.csv")
    assert (row["request_id"], row["members_in_response"]) == (shared.ids["members"], "1")
    page = shared.alice.page("/personal-data")
    assert "Members in all responses" in page
    assert "A member counts once for each response that contained the member" in page
    of_key = shared.alice.page(f"/keys/{shared.key_id}?tab=audit")
    assert shared.ids["members"] in of_key
    assert f'href="/personal-data?key={shared.key_id}"' in of_key


def test_a_rejected_line_and_no_other_is_revealed_on_request_and_that_is_audited(alice: Operator) -> None:
    alice.console.service.load(branch(), b'{"kind":"bill","tel":"0811111111"}')
    rejects = alice.console.settings.store / "rejects"
    rejects.mkdir()
    (alice.console.service.folder / "rejects.ndjson").rename(rejects / "rejects.ndjson")
    (load,) = alice.json("/loads.json")["loads"]
    path = f"/loads/{load['number']}"
    page = alice.page(path)
    assert f"counterfoil load {rejects / 'rejects.ndjson'}" in page
    assert load["reasons"] == {"no_id": 1}
    assert "0811111111" not in page
    assert alice.send(f"{path}/reveal", {"form": "x", "source": "test", "line": "1"}).status_code == 404
    answer = alice.send(f"{path}/reveal", alice.hidden(page, f"{path}/reveal"))
    assert "0811111111" in answer.text
    entry, earlier = alice.json("/audit.json")["entries"]
    assert earlier["act"] == "console_signed_in"
    assert (entry["act"], entry["actor"], entry["via"]) == ("reject_revealed", "alice", "console")
    assert entry["detail"] == f"load {load['number']}, line 2"


def test_a_rejects_file_outside_the_store_is_named_without_a_path(console: RunningConsole, alice: Operator) -> None:
    console.service.load(branch(), b'{"kind":"bill"}')
    page = alice.page("/loads/1")
    assert "then load the rejects file rejects.ndjson." in page
    assert str(console.settings.store / "rejects") not in page


def test_a_row_that_an_import_rejected_has_its_own_advice_and_no_text_to_reveal(alice: Operator) -> None:
    progress = alice.console.service.ledger.begin_load("export.csv")
    progress.lines, progress.rejected, progress.reasons = 2, 1, {"import_no_id": 1}
    progress.add_reject(RejectedLine("export.csv", 4, "import_no_id"))
    alice.console.service.ledger.apply([], progress)
    page = alice.page("/loads/1")
    assert "has no valid bill ID" in page
    assert "Fix them in the till or in the export, then bring in the export again." in page
    assert "load the rejects file" not in page
    assert "/loads/1/reveal" not in page


def test_an_open_item_is_listed_and_closed_by_its_button_and_that_is_audited(alice: Operator) -> None:
    alice.console.service.load(branch(), b'{"kind":"bill"}')
    (item,) = alice.json("/loads.json")["openItems"]
    assert (item["kind"], item["lines"]) == ("rejects", 1)
    path = f"/loads/items/{item['number']}/resolve"
    alice.console.service.clock.advance(180)
    page = alice.page("/loads")
    assert path in page
    assert ">for 3 minutes<" in page
    for reason in (page, alice.page(path.removesuffix("/resolve"))):
        assert "1 × The line <span>has no usable id</span>" in reason
    closed = alice.send(path, {})
    assert closed.status_code == 200
    # Its links lead to the page of the form.
    assert "/language?to=th&amp;back=%2Floads" in closed.text
    assert alice.send(path, {}).status_code == 409
    assert alice.json("/loads.json")["openItems"] == []
    entries = alice.json("/audit.json")["entries"]
    assert [(entry["act"], entry["actor"]) for entry in entries if "item" in entry["act"]] == [
        ("items_resolved", "alice")
    ]


HELD = OpenItem(
    identity="1-bills.ndjson",
    kind="held",
    files={"bills.ndjson": 0},
    path="/held/1-bills.ndjson",
    reason="10.0% of bills have no items.",
)


def test_of_several_who_discard_a_delivery_at_once_one_is_told_so(alice: Operator) -> None:
    alice.console.service.ledger.add_items([HELD])
    (item,) = alice.json("/loads.json")["openItems"]
    path = f"/loads/items/{item['number']}/discard"
    with ThreadPoolExecutor(8) as operators:
        statuses = [answer.status_code for answer in operators.map(lambda _: alice.send(path, {}), range(8))]
    assert sorted(statuses) == [200] + [409] * 7


def test_an_accepted_load_is_marked_in_the_list_and_on_its_page(alice: Operator) -> None:
    alice.console.service.load(branch())
    accepted = replace(HELD, load=1, closed_at=alice.console.service.clock.now_ms(), closed_by="accepted")
    alice.console.service.ledger.add_items([accepted])
    for path in ("/loads", "/loads/1"):
        assert ">accepted<" in alice.page(path)
    assert [load["accepted"] for load in alice.json("/loads.json")["loads"]] == [True]


@pytest.mark.parametrize("verb", ["accept", "discard"])
def test_a_held_delivery_is_decided_about_on_its_own_page_and_that_is_audited(alice: Operator, verb: str) -> None:
    alice.console.service.ledger.add_items([HELD])
    (item,) = alice.json("/loads.json")["openItems"]
    path = f"/loads/items/{item['number']}"
    page = alice.page("/loads")
    assert f'href="{path}"' in page
    assert f"{path}/" not in page, "nothing is decided by one tap in the list"
    page = alice.page(path)
    assert "10.0% of bills have no items." in page
    assert "later deliveries with the same change count as usual" in page
    assert (f"{path}/accept" in page, f"{path}/discard" in page, f"{path}/resolve" in page) == (True, True, False)
    assert alice.send(f"{path}/resolve", {}).status_code == 409
    assert alice.send(f"{path}/{verb}", {}).status_code == 200
    left = alice.json("/loads.json")["openItems"]
    assert [item["decision"] for item in left] == (["accepted"] if verb == "accept" else [])
    if verb == "accept":
        assert f"{path}/accept" not in (page := alice.page(path))
        assert f"{path}/discard" in page
    else:
        assert alice.get(path).status_code == 404
    assert alice.json("/audit.json")["entries"][0]["act"] == f"delivery_{verb}ed"


def test_the_reference_page_describes_this_version_and_has_a_search(shared: InUse) -> None:
    assert shared.alice.json("/reference.json")["openapi"].startswith("3.1")
    page = shared.alice.get("/reference")
    assert "API reference" in page.text
    assert 'href="/"' in page.text
    assert 'id="search"' in page.text
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert shared.alice.get("/reference.js").headers["content-type"].startswith("text/javascript")
    assert shared.alice.get("/llms.txt").status_code == 200


def test_a_page_that_does_not_exist_says_so(shared: InUse) -> None:
    answer = shared.alice.get("/nowhere")
    assert answer.status_code == 404
    assert "There is no such page." in answer.text
    assert shared.alice.get("/nowhere.json").json() == {"error": "There is no such page."}


def test_the_console_answers_while_the_store_cannot_be_read_and_says_why_once(alice: Operator) -> None:
    alice.console.service.load(branch())
    for file in alice.console.settings.store.glob("usage.sqlite3*"):
        file.write_bytes(b"not a database, but long enough to look like one" * 100)
    answer = alice.get("/requests")
    assert answer.status_code == 503
    assert "The store cannot be read" in answer.text
    assert "Something is wrong:" in alice.page("/")
    assert "หยุดบริการและกู้คืนไฟล์จากข้อมูลสำรอง" in alice.page("/store", **{"accept-language": "th"})
    findings = alice.json("/store.json")["checks"]
    (broken,) = [finding for finding in findings if finding["check"] == "usage"]
    assert broken["status"] == "fail"
    assert [finding["message"] for finding in findings].count(broken["message"]) == 1


def test_reading_a_page_changes_nothing(shared: InUse) -> None:
    def content() -> list[str]:
        found = []
        for name in ("books", "keys", "usage"):
            connection = sqlite3.connect(f"file:{shared.console.settings.store / name}.sqlite3?mode=ro", uri=True)
            found += list(connection.iterdump())
            connection.close()
        return found

    before = content()
    for path in (*PAGES, f"/keys/{shared.key_id}", "/requests.csv", "/loads/1"):
        assert shared.alice.get(path).status_code == 200
    assert content() == before


def test_the_command_has_every_condition_of_the_search(shared: InUse) -> None:
    query = "route=shops&status=200&slower=5&since=2026-01-01T00:00&until=2026-01-02T12:30"
    options = "--route shops --status 200 --slower-than 5"
    times = "--since 2025-12-31T17:00:00.000Z --until 2026-01-02T05:30:00.000Z"
    assert f"counterfoil requests {options} {times}</code>" in shared.alice.page(f"/requests?{query}")


@pytest.mark.parametrize(
    "query",
    [
        "since=0001-01-01T00:00",
        "until=9999-12-31T23:59-23:59",
        "since=now",
        "status=abc",
        "slower=99999999999",
        "status=-1",
    ],
)
def test_a_condition_that_makes_no_sense_is_ignored_with_a_message(shared: InUse, query: str) -> None:
    name = query.partition("=")[0]
    assert f"These conditions are not valid and were ignored: {name}." in shared.alice.page(f"/requests?{query}")


def test_commands_quote_what_is_in_the_address(shared: InUse) -> None:
    for path in ("/audit", "/personal-data"):
        assert " 'x;reboot'</code>" in unescape(shared.alice.page(f"{path}?key=x%3Breboot"))


# --- sorting and filtering --------------------------------------------------------


def first_cells(page: str) -> list[str]:
    """Return the text of the first cell of each row."""
    cells = re.findall(r'<th scope="row"[^>]*>(.*?)</th>', page, re.DOTALL)
    return [re.sub("<[^>]*>", "", cell).split()[0] for cell in cells]


def test_a_list_is_sorted_by_the_column_of_the_heading_that_was_followed(alice: Operator) -> None:
    quiet, busy = branch(name="Quiet"), branch(name="Busy")
    alice.console.service.load(quiet, busy, bill(busy, closedAt=iso_utc(alice.console.clock.now_ms() - 60_000)))
    for order, next_order, names in (
        ("ascending", "&amp;order=desc", ["Busy", "Quiet"]),
        ("descending", "", ["Quiet", "Busy"]),
    ):
        page = alice.page(f"/shops?sort=shopId{'' if order == 'ascending' else '&order=desc'}")
        assert first_cells(page) == names
        assert "<caption>Sorted by: Shop</caption>" in page
        (heading,) = re.findall(r'<th [^>]*aria-sort="([a-z]+)"[^>]*><a href="([^"]*)">Shop<', page)
        assert heading == (order, f"/shops?sort=shopId{next_order}")
    # A column of numbers begins with the highest, and a missing value is the lowest.
    assert 'href="/shops?sort=lastBillAt&amp;order=desc"' in alice.page("/shops")
    assert first_cells(alice.page("/shops?sort=lastBillAt&order=desc")) == ["Busy", "Quiet"]
    assert first_cells(alice.page("/shops?sort=lastBillAt")) == ["Quiet", "Busy"]


def test_a_list_is_filtered_by_what_it_shows_and_continued_on_request(console: RunningConsole, alice: Operator) -> None:
    console.service.load(*(branch(name=f"Shop-{number:02}") for number in range(30)))
    page = alice.page("/shops?sort=shopId")
    assert len(first_cells(page)) == 25
    assert 'href="/shops?sort=shopId&amp;limit=50"' in page
    assert len(first_cells(alice.page("/shops?limit=50"))) == 30
    filtered = alice.page("/shops?filter=shop-2+NO+bills")
    assert len(first_cells(filtered)) == 10
    assert 'value="shop-2 NO bills"' in filtered
    assert first_cells(alice.page("/shops?filter=none")) == []


def test_every_link_that_sorts_a_list_leads_to_a_page(shared: InUse) -> None:
    of_key = f"/keys/{shared.key_id}"
    pages = [shared.alice.page(path) for path in (*PAGES, of_key, f"{of_key}?tab=errors", f"{of_key}?tab=audit")]
    for address in {address for page in pages for address in re.findall(r'href="([^"]*sort=[^"]*)"', page)}:
        assert "aria-sort" in shared.alice.page(unescape(address))


# --- find ------------------------------------------------------------------------


def test_find_leads_to_the_page_of_what_was_found_or_says_that_it_found_nothing(shared: InUse) -> None:
    request, shop = shared.ids["wrong"], shared.shop["id"]
    expected = {
        shared.key_id: f"/keys/{shared.key_id}",
        "erp": f"/keys/{shared.key_id}",
        shop: f"/shops/{shop}",
        "RIVERSIDE": f"/shops/{shop}",
        "1": "/loads/1",
        request: f"/requests?request={request}",
    }
    found = {wanted: shared.alice.get(f"/find?q={wanted}").headers.get("location") for wanted in expected}
    assert found == expected
    assert "Nothing was found" in shared.alice.page("/find?q=nothing-of-that-name")
    assert "Nothing was found" not in shared.alice.page("/find?q=")
    assert [match["kind"] for match in shared.alice.json("/find.json?q=1")["matches"]] == ["load"]
