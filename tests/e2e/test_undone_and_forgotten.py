"""Days in the life of copies, with real processes: a wrong file is taken back, and a member is forgotten."""

import gzip
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from client import copy_contents, expected
from client.copy_contents import Json, assert_same, plain
from client.example_clients import PythonClient
from counterfoil.client.sinks.sqlite import SQLiteSink
from counterfoil.domain.tokens import Pseudonyms
from e2e.serve_process import SHOP, Deployment, ServeProcess
from running_service import SECRET
from waiting import until

pytestmark = pytest.mark.programs

PROGRAM = (sys.executable, "-m", "counterfoil")
PLENTY = {"per_min": 100_000, "per_day": 1_000_000}
ID, TEL, EMAIL = "person-4711", "0891234567", "somchai@example.test"
TOKEN = Pseudonyms(SECRET.encode()).member_token(ID)


class World:
    """A service, and the operator's commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.deployment = Deployment(folder)
        keys = {"feed": {}, "lists": {}, "seed": {}, "personal": {"personal_data": True}}
        self.deployment.issue({name: PLENTY | terms for name, terms in keys.items()})
        self.deployment.load(SHOP, {"kind": "base", "id": "mb_a"})
        self.service: ServeProcess = self.deployment.start()

    def run(self, *words: object, status: int = 0) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [*PROGRAM, *map(str, words)],
            env=self.deployment.environment(),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done

    def load(self, name: str, *records: dict[str, Any], status: int = 0) -> None:
        file = self.folder / name
        file.write_text("".join(json.dumps(record) + "\n" for record in records))
        self.run("load", file, status=status)

    def pull(self, target: str, key: str) -> None:
        key_file = self.folder / f"{key}.key"
        key_file.write_text(self.service.key(key))
        self.run("pull", "--url", self.service.url.rstrip("/"), "--key-file", key_file, "--to", target)

    def ask(self, key: str) -> Callable[..., Json]:
        def asked(path: str, **query: object) -> Json:
            words = "&".join(f"{name}={value}" for name, value in query.items())
            answer = self.service.get(f"{path}?{words}", self.service.key(key))
            assert answer.status_code == 200, answer.text
            body: Json = answer.json()
            return body

        return asked

    def files_with_his_data(self) -> list[str]:
        """Return the files, packed or not, whose bytes have his ID, phone number or email address."""
        found = []
        for path in self.folder.rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                content += gzip.decompress(content) if content.startswith(b"\x1f\x8b") else b""
                if any(text.encode() in content for text in (ID, TEL, EMAIL)):
                    found.append(path.relative_to(self.folder).as_posix())
        return sorted(found)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.service.stop()


# --- three copies ------------------------------------------------------------------------


class SeedClient:
    """Does what the contract says, word by word: windows of 31 days, then `updatedSince`, upserts on the ID."""

    def __init__(self, ask: Callable[..., Json]) -> None:
        self._ask = ask
        self._bills: dict[str, Json] = {}
        self._since = ""

    def run(self) -> None:
        if not self._since:
            self._since = self._ask("transactions", shopId="sh_1", limit=1, updatedSince=expected.EVER)["serverTime"]
            self._bills = {bill_id: bill for (_, bill_id), bill in expected.bills(self._ask, "sh_1").items()}
        first = self._ask("transactions", shopId="sh_1", limit=200, updatedSince=self._since)
        page = first
        while True:
            for bill in page["data"]:
                self._bills[bill["id"]] = plain(bill)
            if page["nextCursor"] is None:
                break
            cursor = page["nextCursor"]
            page = self._ask("transactions", shopId="sh_1", limit=200, updatedSince=self._since, cursor=cursor)
        self._since = first["serverTime"]

    def bills(self) -> dict[tuple[str, str], Json]:
        return {("sh_1", bill_id): bill for bill_id, bill in self._bills.items()}


class Copies:
    """A copy by the feed, one by lists of changes as in docs/own-client.md, and one by the words of the contract."""

    def __init__(self, world: World) -> None:
        self._world = world
        url = world.service.url.rstrip("/")
        self._lists = PythonClient(world.folder / "lists", url, world.service.key("lists"))
        self._seed = SeedClient(world.ask("seed"))

    def catch_up(self) -> None:
        self._world.pull("feed.sqlite", "feed")
        self._lists.run()
        self._seed.run()

    def assert_equal_to_the_service(self) -> None:
        served = expected.bills(self._world.ask("feed"), "sh_1")
        with closing(SQLiteSink(self._world.folder / "feed.sqlite")) as sink:
            assert_same(copy_contents.bills(sink), served)
        assert_same(self._lists.bills(), served)
        assert_same(self._seed.bills(), served)


def bill(number: int, net: float, **fields: Any) -> dict[str, Any]:
    at = f"2026-01-{number % 27 + 1:02}T12:00:00+07:00"
    amounts = {"amounts": {"net": net}, "payments": [{"name": "Cash", "amount": net}]}
    return {"kind": "bill", "id": f"b_{number}", "shopId": "sh_1", "closedAt": at, **amounts, **fields}


def test_copies_equal_the_service_after_a_wrong_file_was_undone_and_the_right_one_loaded(world: World) -> None:
    """The wrong file has higher revisions, changes three known bills, and adds bills that the right one has, too."""
    copies = Copies(world)
    world.load("first.ndjson", *(bill(number, 100 + number, rev=1) for number in range(60)))
    copies.catch_up()
    world.load("wrong.ndjson", *(bill(number, 7, rev=9, cashier="Wrong") for number in range(57, 120)))
    copies.catch_up()

    def preview() -> subprocess.CompletedProcess[str] | None:
        shown = world.run("loads", "undo", 3)
        return shown if "Read since by 2 keys that read only lists" in shown.stdout else None

    # The service writes within seconds what was read.
    shown = until(preview, "both keys that read lists are known")
    assert "added 60 bills that an undo takes back" in shown.stdout
    assert "Not taken back: 3 bills changed by the load" in shown.stdout
    assert "may have read these bills from lists" in world.run("loads", "undo", 3, "--remove", status=1).stderr
    world.run("loads", "undo", 3, "--void", "Wrong month")
    copies.catch_up()
    copies.assert_equal_to_the_service()
    world.load("right.ndjson", *(bill(number, 200 + number, rev=2) for number in range(50, 100)))
    copies.catch_up()
    copies.assert_equal_to_the_service()
    served = expected.bills(world.ask("feed"), "sh_1")
    nets = {bill_id: body["amounts"]["net"] for (_, bill_id), body in served.items() if body["status"] != "void"}
    right = {f"b_{number}": 100 + number for number in range(50)}
    assert nets == right | {f"b_{number}": 200 + number for number in range(50, 100)}


# --- a customer is forgotten ----------------------------------------------------------------


TARGETS = ("copy.sqlite", "copy.duckdb", "parquet/")


def test_a_forgotten_member_is_in_no_file_of_the_store_its_folders_and_three_copies(world: World) -> None:
    person = {"kind": "member", "id": ID, "providerId": "mb_a", "tel": TEL, "email": EMAIL}
    other = {"kind": "member", "id": "person-4712", "providerId": "mb_a", "tel": "0890000001", "email": "b@x.test"}
    records = [person, other, bill(1, 10, memberId=ID), bill(2, 20, memberId="person-4712")]
    records.append(bill(3, 30, shopId="sh_unknown", memberId=ID, note=f"call {TEL}"))
    world.load("base.ndjson", *records, status=3)
    done = world.folder / "kept" / "done"
    done.mkdir(parents=True)
    (world.folder / "base.ndjson").rename(done / "base.ndjson")
    for target in TARGETS:
        world.pull(target, "personal")
    assert len([name for name in world.files_with_his_data() if name.startswith(("copy", "parquet"))]) >= 3
    shown = world.run("members", "forget", "--tel", "+66 89 123 4567", "--in", done, "--yes").stdout
    assert "Taken off 1 bill; 4 lines erased from kept files." in shown
    assert f"We have erased the member {TOKEN}" in shown
    assert [name for name in world.files_with_his_data() if not name.startswith(("copy", "parquet"))] == []
    for target in TARGETS:
        world.pull(target, "personal")
    assert world.files_with_his_data() == []
    with closing(SQLiteSink(world.folder / "copy.sqlite")) as sink:
        assert [row[0] for row in sink.run("SELECT member_id FROM removed_members")] == [TOKEN]
        assert TOKEN not in {member_id for _, member_id in copy_contents.members(sink, personal=True)}
        assert_same(copy_contents.bills(sink), expected.bills(world.ask("personal"), "sh_1"))
    # Tonight, the POS delivers its whole base again.
    del records[-1]["note"]
    world.load("again.ndjson", *records, status=3)
    (world.folder / "again.ndjson").unlink()
    for target in TARGETS:
        world.pull(target, "personal")
    assert world.files_with_his_data() == []
    assert world.service.get(f"members/{TOKEN}", world.service.key("personal")).status_code == 404
