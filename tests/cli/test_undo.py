"""Tests for `counterfoil loads undo`: the preview, who has read the bills, the refusals, and an undo that is killed."""

import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cli.command import PYTHON, SHOPS, Command, on_terminal
from counterfoil import bootstrap
from counterfoil.settings import load as load_settings
from records import EVER
from running_service import SECRET, RunningService
from waiting import until

pytestmark = pytest.mark.usefixtures("empty_store")

REASON = "Loaded by mistake"
BILLS = 1_500


def bill(number: int, **fields: Any) -> dict[str, Any]:
    return {"kind": "bill", "id": f"b_{number:04}", "shopId": "sh_1", "closedAt": "2026-01-01T12:00:00+07:00", **fields}


def lines(*records: dict[str, Any]) -> bytes:
    return b"\n".join([*SHOPS, *(json.dumps(record).encode() for record in records)])


def test_without_an_option_nothing_is_changed_and_the_preview_says_what_would_be(counterfoil: Command) -> None:
    counterfoil("load", "-", stdin=lines(bill(1, amounts={"net": 10})))
    counterfoil("load", "-", stdin=lines(bill(1, amounts={"net": 99}), bill(2, amounts={"net": 0.1})))
    shown = counterfoil("loads", "undo", 2)
    assert "Load 2 added 1 bill that an undo takes back." in shown.stdout
    assert "sh_1  2026-01-01        1  0.10" in shown.stdout
    assert "Not taken back: 1 bill changed by the load" in shown.stdout
    assert "sh_1 b_0001: before: load 1" in shown.stdout
    assert "nothing was changed" in shown.stderr
    found = counterfoil.json("loads", "undo", 2)
    assert (found["takenBack"], found["kept"], found["done"]) == (1, {"changed": 1}, None)
    assert counterfoil.json("loads")[0]["state"] == "finished"


def test_an_undo_is_audited_and_its_load_is_marked(counterfoil: Command) -> None:
    counterfoil("load", "-", stdin=lines(bill(1)))
    assert "Made void: 1 bill of load 1." in counterfoil("loads", "undo", 1, "--void", REASON).stdout
    assert counterfoil.json("loads")[0]["state"] == "undone"
    acts = [entry["act"] for entry in counterfoil.json("audit")]
    assert acts.count("load_undone") == 1
    assert REASON not in counterfoil("audit").stdout


def test_of_two_loads_of_the_same_bills_the_later_one_is_undone_first(counterfoil: Command) -> None:
    for _ in range(2):
        counterfoil("load", "-", stdin=lines(bill(1)))
    assert "if it is wrong, too, undo it first" in counterfoil("loads", "undo", 1).stdout
    assert (
        "`counterfoil loads undo 2 --remove` lets the earlier load be undone" in counterfoil("loads", "undo", 2).stderr
    )
    assert "can be undone" in counterfoil("loads", "undo", 2, "--remove").stderr
    assert "Removed 1 bill of load 1." in counterfoil("loads", "undo", 1, "--remove").stdout


def test_an_undo_names_the_files_of_the_load_and_runs_in_a_script(counterfoil: Command, tmp_path: Path) -> None:
    upload = tmp_path / "march.csv.0123456789ab.ndjson"
    upload.write_bytes(lines(bill(1, amounts={"net": 10})))
    counterfoil("load", upload)
    shown = counterfoil("loads", "undo", 1)
    assert "Its files: march.csv" in shown.stdout.splitlines()
    assert "Removed 1 bill of load 1." in counterfoil("loads", "undo", 1, "--remove", "--yes").stdout


def test_on_a_terminal_an_undo_asks_before_it_removes(counterfoil: Command) -> None:
    counterfoil("load", "-", stdin=lines(bill(1, amounts={"net": 10})))
    shown = on_terminal("loads", "undo", 1, "--remove", "--store", counterfoil.store, typed=b"n\n")
    assert "Remove 1 bill of load 1" in shown
    assert counterfoil.stored()[0] == 1


def test_an_undo_of_an_undone_load_says_so_and_is_not_audited(counterfoil: Command) -> None:
    counterfoil("load", "-", stdin=lines(bill(1)))
    counterfoil("loads", "undo", 1, "--remove")
    assert "was undone before" in counterfoil("loads", "undo", 1, "--void", REASON).stderr
    assert [entry["act"] for entry in counterfoil.json("audit")].count("load_undone") == 1


@pytest.mark.parametrize(
    ("words", "status", "expected"),
    [
        (("loads", "undo", 7), 1, "there is no load 7"),
        (("loads", "undo", "x"), 2, "loads undo LOAD"),
        (("loads", "undo"), 2, "loads undo LOAD"),
        (("loads", "--remove"), 2, "belong to `loads undo LOAD`"),
        (("loads", "undo", 1, "--remove", "--void", REASON), 2, "not both"),
        (("loads", "undo", 1, "--void", " "), 2, "needs a reason"),
    ],
)
def test_what_has_no_meaning_is_refused(
    counterfoil: Command, words: tuple[object, ...], status: int, expected: str
) -> None:
    counterfoil("load", "-", stdin=lines(bill(1)))
    assert expected in counterfoil(*words, status=status).stderr


def test_a_load_that_is_running_is_refused(counterfoil: Command) -> None:
    counterfoil("load", "-", stdin=lines(bill(1)))
    settings = load_settings({"store": str(counterfoil.store)}, environment={})
    with closing(bootstrap.store(settings).ledger()) as ledger:
        ledger.begin_load("another")
    assert "still running" in counterfoil("loads", "undo", 2, "--remove", status=1).stderr


def test_a_load_from_before_the_upgrade_is_refused_and_its_bills_are_named_as_of_an_unknown_load(
    counterfoil: Command,
) -> None:
    counterfoil("load", "-", stdin=lines(bill(1, amounts={"net": 10})))
    with connected(counterfoil) as database, database:
        database.execute("UPDATE bills SET load = NULL")
        database.execute("UPDATE loads SET horizon = NULL")
    counterfoil("load", "-", stdin=lines(bill(1, amounts={"net": 99}), bill(2)))
    assert "made by an older version" in counterfoil("loads", "undo", 1, "--remove", status=1).stderr
    assert "sh_1 b_0001: before: a load that is not known" in counterfoil("loads", "undo", 2).stdout
    assert counterfoil.json("loads", "undo", 2, "--remove")["done"] == {"how": "removed", "bills": 1}


def read_and_undo(folder: Path, monkeypatch: pytest.MonkeyPatch, *reads: tuple[str, dict[str, str]]) -> Command:
    """Load a wrong file into a new store, read it with a key over HTTP; return the command for this store."""
    monkeypatch.setenv("COUNTERFOIL_SECRET", SECRET)
    with closing(RunningService(folder)) as service:
        service.load(*(json.loads(line) for line in SHOPS))
        key = service.key(franchise="fr_a", label="BI")
        service.data("transactions", key, shopId="sh_1", updatedSince=EVER)
        service.clock.advance(60)
        service.load(bill(1), bill(2))
        for path, query in reads:
            service.data(path, key, **query)
    return Command(folder / "store")


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("transactions", {"shopId": "sh_1", "updatedSince": EVER}),
        ("transactions", {"shopId": "sh_1", "from": "20260101", "to": "20260101"}),
        ("transactions/b_0001", {}),
    ],
)
def test_bills_that_a_key_may_have_read_from_lists_only_are_not_removed_but_can_be_made_void(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, query: dict[str, str]
) -> None:
    counterfoil = read_and_undo(tmp_path, monkeypatch, (path, query))
    assert "only lists: key" in counterfoil("loads", "undo", 2).stdout
    refused = counterfoil("loads", "undo", 2, "--remove", status=1).stderr
    assert "(BI) may have read these bills from lists" in refused
    assert counterfoil.json("loads", "undo", 2)["takenBack"] == 2
    assert counterfoil.json("loads", "undo", 2, "--void", REASON)["done"] == {"how": "void", "bills": 2}


@pytest.mark.parametrize(
    ("reads", "readers"),
    [
        ((), []),
        ((("transactions", {"shopId": "sh_2", "updatedSince": EVER}), ("shops", {})), []),
        ((("changes", {}), ("transactions", {"shopId": "sh_1", "updatedSince": EVER})), [True]),
    ],
    ids=["nobody", "another shop", "the feed too"],
)
def test_bills_are_removed_if_every_key_that_has_read_them_reads_the_feed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: Any, readers: list[bool]
) -> None:
    counterfoil = read_and_undo(tmp_path, monkeypatch, *reads)
    done = counterfoil.json("loads", "undo", 2, "--remove")
    assert [reader["readsFeed"] for reader in done["readers"]] == readers
    assert done["done"] == {"how": "removed", "bills": 2}


@pytest.mark.parametrize(
    "kills", [1, pytest.param(3, marks=pytest.mark.programs), pytest.param(50, marks=pytest.mark.long)]
)
@pytest.mark.parametrize("words", [("--remove",), ("--void", REASON)], ids=["removed", "void"])
def test_an_undo_that_is_killed_is_finished_by_repeating_it(
    counterfoil: Command, words: tuple[str, ...], kills: int
) -> None:
    """Each process is killed as soon as it has taken back some bills, at a later moment each time."""
    bills = [bill(number, amounts={"net": 1}) for number in range(BILLS)]
    counterfoil("load", "-", stdin=lines(bills[0]))
    counterfoil("load", "-", stdin=lines(*bills[1:]))
    left = BILLS - 1
    for _ in range(kills):
        left = killed_after_some_bills(counterfoil, words, left)
    counterfoil("loads", "undo", 2, *words)
    assert bills_of_the_load(counterfoil) == 0
    assert counterfoil.json("loads")[0]["state"] == "undone"
    assert counterfoil.json("loads", "undo", 2)["takenBack"] == 0
    counterfoil("load", "-", stdin=lines(*bills))
    with connected(counterfoil) as database:
        assert database.execute("SELECT count(*) FROM bills WHERE instr(body, '\"void\"') = 0").fetchone() == (BILLS,)


def killed_after_some_bills(counterfoil: Command, words: tuple[str, ...], left: int) -> int:
    """Run an undo and kill it when fewer bills are left than before, or it has ended; return how many are left."""
    process = subprocess.Popen(
        [*PYTHON, "loads", "undo", "2", *words, "--store", str(counterfoil.store)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(lambda: process.poll() is not None or bills_of_the_load(counterfoil) < left, "bills were taken back")
    process.kill()
    process.wait()
    return bills_of_the_load(counterfoil)


def connected(counterfoil: Command) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(counterfoil.store / "books.sqlite3", timeout=10))


def bills_of_the_load(counterfoil: Command) -> int:
    with connected(counterfoil) as database:
        ((count,),) = database.execute("SELECT count(*) FROM bills WHERE load = 2")
    return int(count)


def test_the_same_export_can_be_imported_again_after_its_load_was_undone(counterfoil: Command, tmp_path: Path) -> None:
    export = tmp_path / "day.csv"
    rows = [f"A{number},14/11/2026 18:0{number},{number}.00" for number in range(1, 7)]
    export.write_text("\n".join(["Bill,Date,Total", *rows, ""]), "utf-8")
    mapping = tmp_path / "mapping.toml"
    mapping.write_text(
        '[dates]\norder = "dmy"\n[shop]\nid = "riverside"\n'
        '[bill]\nid = "Bill"\nclosedAt = "Date"\namounts.net = "Total"\n',
        "utf-8",
    )
    load = ("import", "--mapping", mapping, export, "--load")
    counterfoil("load", "-", stdin=lines())
    counterfoil(*load)
    assert "Removed 6 bills of load 2." in counterfoil("loads", "undo", 2, "--remove", "--yes").stdout
    assert counterfoil.json(*load)["added"] == 6
