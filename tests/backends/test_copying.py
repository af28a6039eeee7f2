"""A live store is copied from a folder to PostgreSQL completely, byte for byte, while it is loaded and served."""

import os
import re
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec import json

import servers
from actors import OPERATOR
from backends.test_same_answers import agreed, franchise_keys, load_a_world, read_lists
from cli.command import PYTHON
from counterfoil import bootstrap, key_issuing, settings
from counterfoil.backends.moved_tables import TABLES, MoveRefused
from counterfoil.backends.moving import CutOver, StoreMove
from counterfoil.backends.postgres.move_target import PostgresMoveTarget
from counterfoil.backends.sqlite.move_source import SqliteMoveSource
from counterfoil.domain.audit import Act, AuditEntry
from counterfoil.domain.forgetting import ForgottenMember, mark_of
from counterfoil.ingest.pipeline import LoadRules, Pipeline, RejectsFile
from counterfoil.model.calendar import iso_utc
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.program.main import program
from faults.http_clients import Repeating
from records import EVER, NEW_YEAR, bill, bills, branch, member, removal, shop
from running_service import SECRET, RecordSource, RunningService
from servers import Postgres, address_of

# Copying to a real server takes time, so these tests run only in `make test-long`.
pytestmark = pytest.mark.long
MOVED = AuditEntry(at=1, act=Act.STORE_MOVED, actor=OPERATOR, detail="from a folder")


@pytest.fixture
def target() -> str:
    return servers.postgres(18).fresh_database()[1]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RunningService]:
    service = RunningService(tmp_path / "old")
    yield service
    service.close()


@pytest.fixture
def move(service: RunningService, target: str, tmp_path: Path) -> Iterator[Callable[[], RunningService]]:
    """A function that moves the store to the target, and returns a service there."""
    with ExitStack() as opened:

        def move() -> RunningService:
            copied(service, target, "--cut-over")
            return opened.enter_context(closing(arrived(service, target, tmp_path)))

        yield move


def arrived(service: RunningService, target: str, folder: Path) -> RunningService:
    return RunningService(folder / "new", store=target, clock=service.clock)


def copied(service: RunningService, target: str, *more: str, status: int = 0) -> Any:
    return json.decode(run(service, target, *more, "--json", status=status).stdout)


def run(service: RunningService, target: str, *more: str, status: int = 0) -> Result:
    words = ["copy", "--from", f"sqlite:{service.settings.store}", "--to", target, *more]
    result = CliRunner().invoke(program, words)
    assert result.exit_code == status, result.output
    return result


# --- completeness ---------------------------------------------------------------


@pytest.mark.parametrize("major", [18, 16])
def test_the_copy_answers_every_request_as_the_source_did(tmp_path: Path, service: RunningService, major: int) -> None:
    load_a_world(service)
    keys = franchise_keys([service])
    target = servers.postgres(major).fresh_database()[1]
    # The retired source no longer answers requests, so a copy of its files gives the expected responses.
    shutil.copytree(service.settings.store, tmp_path / "again" / "store")
    told = copied(service, target, "--cut-over")
    assert told["equal"]
    assert told["opened"]
    assert told["rows"]["bills"] > 100
    again = RunningService(tmp_path / "again", clock=service.clock)
    with closing(arrived(service, target, tmp_path)) as there, closing(again) as here:
        for key in keys:
            for found in agreed([here, there], key, "shops")["data"]:
                read_lists([here, there], key, found, 7)


def test_counts_the_minute_window_and_cursors_continue_at_the_target(
    service: RunningService, move: Callable[[], RunningService]
) -> None:
    of = shop()
    service.load(of, *bills(of, 5))
    key = service.key(shop=of["id"], per_min=3, per_day=50)
    page = service.get("transactions", key, shopId=of["id"], limit=2, **NEW_YEAR).json()
    service.data("usage", key)
    service.clock.advance(1)
    service.ledger.advance_horizon()
    there = move()
    rest = there.get("transactions", key, shopId=of["id"], limit=200, cursor=page["nextCursor"], **NEW_YEAR)
    assert len(rest.json()["data"]) == 3
    assert rest.json()["serverTime"] == page["serverTime"]
    assert rest.headers["x-ratelimit-remaining"] == "47"
    assert there.error("usage", key) == "rate_limited"


def test_a_mark_of_the_feed_and_digests_continue_at_the_target(
    service: RunningService, move: Callable[[], RunningService]
) -> None:
    of, elsewhere = branch(franchiseId="f"), branch(franchiseId="g")
    sold = bills(of, 4)
    service.load(of, elsewhere, *sold, bill(elsewhere))
    key = service.key(franchise="f")
    service.clock.advance(1)
    service.ledger.advance_horizon()
    mark = service.get("changes", key).json()["mark"]
    service.load(
        removal(sold[0]), sold[1] | {"cashier": "Ying"}, bill(of, history=True), elsewhere | {"franchiseId": "f"}
    )
    service.clock.advance(1)
    service.ledger.advance_horizon()
    here = service.data("changes", key, since=mark)
    digests = service.data("digests", key)
    there = move()
    assert there.data("changes", key, since=mark) == here
    assert len(here) == 5
    assert there.data("digests", key) == digests


def test_a_forgotten_member_stays_out_at_the_target(
    service: RunningService, move: Callable[[], RunningService]
) -> None:
    of = branch()
    who = member(of)
    service.load(of, who)
    key = service.key(franchise=of["franchiseId"])
    (found,) = service.data("members", key, providerId=of["providerId"])
    service.ledger.mark_forgotten([ForgottenMember(mark=mark_of(found["memberId"]), at=1)])
    service.ledger.erase_member(found["memberId"])
    there = move()
    there.load(who, member(of))
    assert [other["memberId"] for other in there.data("members", key, providerId=of["providerId"])] != []
    assert there.error(f"members/{found['memberId']}", key) == "not_found"


def test_the_horizon_of_the_target_is_not_below_the_sources(
    service: RunningService, move: Callable[[], RunningService]
) -> None:
    of = shop()
    service.load(of, bill(of))
    service.clock.advance(3600)
    last = service.ledger.advance_horizon()
    service.clock.advance(-3600)
    there = move()
    there.load(bill(of))
    key = there.key(shop=of["id"])
    (new,) = there.get("transactions", key, shopId=of["id"], updatedSince=iso_utc(last)).json()["data"]
    assert new["updatedAt"]


def test_a_key_is_never_given_an_older_horizon_by_a_target_with_lagging_replicas(
    service: RunningService, tmp_path: Path
) -> None:
    of = shop()
    service.load(of, *bills(of, 3))
    key = service.key(shop=of["id"])
    primary = Postgres(18)
    database, target = primary.fresh_database()
    replica = Postgres(18, replica_of=primary)
    replica.pause_replay()
    service.clock.advance(60)
    service.ledger.advance_horizon()
    told = service.get("shops", key).json()["serverTime"]
    copied(service, target, "--cut-over")
    with closing(arrived(service, address_of(database, primary, replica), tmp_path)) as there:
        assert there.get("shops", key).json()["serverTime"] >= told
        assert len(there.data("transactions", key, shopId=of["id"], updatedSince=EVER)) == 3
    for server in (replica, primary):
        server.remove()


# --- changes during the copy -----------------------------------------------------


def test_changes_at_the_source_during_the_copy_are_copied_too(service: RunningService, target: str) -> None:
    of, base_shop = shop(), branch()
    first = bills(of, 40)
    people = member(base_shop, rev=1)
    service.load(of, base_shop, *first, people)
    told = copied(service, target)
    assert told["equal"]
    assert not told["opened"]
    service.clock.advance(1)
    # Clients see all of these changes except the second. Changing the shop's time zone changes all of its bills.
    service.load(
        first[0] | {"cashier": "Lek"},
        first[1] | {"rev": 9},
        removal(first[2]),
        bill(of),
        removal(people) | {"rev": 2},
        of | {"timezone": "Asia/Tokyo"},
    )
    told = copied(service, target)
    assert told["equal"]
    assert told["moved"] > 40
    again = copied(service, target)
    assert (again["moved"], again["equal"]) == (0, True)


def test_request_records_that_the_source_has_deleted_or_added_are_copied(service: RunningService, target: str) -> None:
    service.load(shop())
    insert = """
        INSERT INTO requests (at, key_id, route, status, took_us, personal_members, request_id, detail)
        VALUES (1, 'k_1', 'usage', 200, 1, 0, ?, '[]')
    """
    with closing(sqlite3.connect(service.settings.store / "usage.sqlite3", isolation_level=None)) as usage:
        for statement, ids, count in [(insert, "aab", 3), ("DELETE FROM requests WHERE request_id = ?", "a", 1)]:
            usage.executemany(statement, list(ids))
            told = copied(service, target)
            assert (told["rows"]["requests"], told["equal"], bool(told["moved"])) == (count, True, True)


def test_a_copy_command_that_was_killed_resumes_where_it_stopped(service: RunningService, target: str) -> None:
    of = shop()
    for minute in range(4):
        service.load(of, *bills(of, 1500, closedAt=f"2026-01-0{minute + 1}T12:00:00+07:00"))
    words = [*PYTHON, "copy", "--from", f"sqlite:{service.settings.store}", "--to", target]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    name = target.rpartition("/")[2]
    while process.poll() is None:
        ((count,),) = servers.postgres(18).command("SELECT count(*) FROM counterfoil.bills", name)
        if count:
            process.send_signal(signal.SIGKILL)
            break
    process.wait()
    told = copied(service, target, "--cut-over")
    assert told["equal"]
    assert told["rows"]["bills"] == 6000


def test_loads_may_continue_during_the_copy(service: RunningService, target: str, tmp_path: Path) -> None:
    of = shop()
    service.load(of, *bills(of, 300))
    loaded = 0

    def load() -> None:
        nonlocal loaded
        with closing(bootstrap.store(service.settings, service.clock).ledger()) as other:
            pipeline = Pipeline(
                other, bootstrap.pseudonyms(service.settings), RejectsFile(tmp_path / "r"), LoadRules(batch=50)
            )
            loaded += pipeline.load(RecordSource(bills(of, 50))).lines

    with Repeating(load):
        for _ in range(3):
            assert copied(service, target)["equal"]
    told = copied(service, target, "--cut-over")
    assert told["rows"]["bills"] == 300 + loaded


# --- refusals -------------------------------------------------------------------


def test_an_incomplete_target_serves_nobody(service: RunningService, target: str) -> None:
    service.load(shop())
    copied(service, target)
    there = settings.load({"store": target, "secret": SECRET}, environment={})
    with pytest.raises(StoreMismatch, match="has not been finished"):
        bootstrap.store(there).prepare()
    # The next pass would delete a key that was issued on the target, so issuing is refused.
    issue = ["keys", "issue", "--not-loaded-yet", "--shop", "s", "--store", target]
    refused = CliRunner().invoke(program, issue)
    assert refused.exit_code == 1
    assert "has not been finished" in str(refused.exception) + refused.output


def test_a_retired_source_accepts_no_write_no_request_and_no_new_key(service: RunningService, target: str) -> None:
    of = shop()
    service.load(of, bill(of))
    key = service.key(shop=of["id"])
    assert service.get("shops", key).status_code == 200
    copied(service, target, "--cut-over")
    service.clock.advance(1)
    for act in (service.ledger.advance_horizon, lambda: service.load(bill(of)), lambda: service.key(shop=of["id"])):
        with pytest.raises(StoreUnavailable, match="was moved to postgresql://"):
            act()
    assert service.error("shops", key) == "auth_unavailable"
    said = bootstrap.store(service.settings).reads().problems()
    assert {str(problem) for problem in said.values()} == {f"this store was moved to {target}."}
    doctor = CliRunner().invoke(program, ["doctor", "--store", str(service.settings.store)])
    assert doctor.exit_code == 1
    assert "Set COUNTERFOIL_STORE to the new store" in doctor.output
    # The refused load must not be reported as running.
    assert "A load is running" not in doctor.output


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="needs the program sqlite3 (Debian: sqlite3)")
def test_the_commands_for_going_back_open_a_retired_source_again(service: RunningService, target: str) -> None:
    of = shop()
    service.load(of)
    copied(service, target, "--cut-over")
    page = (Path(__file__).parents[2] / "docs" / "more-machines.md").read_text("utf-8")
    (commands,) = re.findall(r"`(for f in books keys usage; .*; done)`", page)
    here = commands.replace("/var/lib/counterfoil", str(service.settings.store))
    subprocess.run(["bash", "-euc", here], check=True)
    service.clock.advance(1)
    service.load(bill(of))
    assert service.get("shops", service.key(shop=of["id"])).status_code == 200


def test_a_cut_over_that_dies_half_way_is_finished_by_the_next_run(service: RunningService, target: str) -> None:
    """The source is retired before the target is opened. In between, neither answers requests."""
    service.load(shop())

    class Dying(PostgresMoveTarget):
        def open(self, fingerprint: str, horizon: int, entry: AuditEntry) -> None:  # noqa: ARG002 - the port's signature
            raise KeyboardInterrupt

    with closing(bootstrap.move_source(service.settings.store)) as leaving, closing(Dying(target)) as arriving:
        with pytest.raises(KeyboardInterrupt):
            StoreMove(leaving, arriving, lambda *_: None).run(CutOver(target, MOVED))
        assert leaving.retired()
    assert copied(service, target, "--cut-over")["opened"]


def test_a_cut_over_is_refused_while_a_load_writes(service: RunningService, target: str) -> None:
    of = shop()
    service.load(of, bill(of))

    class Late(SqliteMoveSource):
        @contextmanager
        def held(self) -> Iterator[int]:
            service.clock.advance(1)
            service.load(bill(of))
            with super().held() as horizon:
                yield horizon

    with (
        closing(Late(service.settings.store, service.clock)) as leaving,
        closing(PostgresMoveTarget(target)) as arriving,
        pytest.raises(MoveRefused, match="Stop all loads"),
    ):
        StoreMove(leaving, arriving, lambda *_: None).run(CutOver("postgresql://elsewhere", MOVED))
    assert service.load(bill(of)).outcomes["added"] == 1


def test_copying_twice_is_reported_and_does_no_harm(service: RunningService, target: str, tmp_path: Path) -> None:
    service.load(shop())
    copied(service, target, "--cut-over")
    assert "Nothing to do" in run(service, target, "--cut-over").output
    assert copied(service, target)["nothingToDo"]


def test_remembered_mappings_are_named_because_a_database_cannot_have_them(
    service: RunningService, target: str
) -> None:
    assert copied(service, target)["notCopied"] == []
    mapping = service.settings.store / "mappings" / "receipts.toml"
    mapping.parent.mkdir()
    mapping.touch()
    assert copied(service, target)["notCopied"] == [str(mapping)]
    assert "1 remembered mapping of exports" in run(service, target, "--cut-over").output


def test_a_store_that_was_moved_opens_no_second_target(service: RunningService, target: str) -> None:
    """Both targets would continue from the same horizon, and a client of one would miss changes made on the other."""
    service.load(shop())
    second = servers.postgres(18).fresh_database()[1]
    copied(service, second)
    copied(service, target, "--cut-over")
    refused = run(service, second, "--cut-over", status=1).output
    assert f"was already moved to {target}" in refused
    assert not copied(service, second)["opened"]


def test_two_copies_into_one_database_do_not_run_at_once(service: RunningService, target: str) -> None:
    service.load(shop())
    with closing(PostgresMoveTarget(target)) as other:
        other.claim("of another store")
        assert "another copy into this database is running" in run(service, target, status=1).output


def test_a_target_that_contains_other_data_is_refused(service: RunningService, target: str, tmp_path: Path) -> None:
    service.load(shop())
    RunningService(tmp_path / "other", store=target, secret="another deployment's secret, which is long").close()
    assert "contains another store" in run(service, target, status=1).output
    keys_only = servers.postgres(18).fresh_database()[1]
    with closing(RunningService(tmp_path / "third", store=keys_only)) as third:
        third.key(shop="s")
    assert "already contains this store and is open" in run(service, keys_only, status=1).output


def test_a_remaining_difference_is_named_and_sets_the_exit_status(
    service: RunningService, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the target, one bill is deleted and one is changed between the last pass and the comparison."""
    of = shop()
    service.load(of, *bills(of, 3))
    name = target.rpartition("/")[2]

    class Clumsy(StoreMove):
        def _verify(self, *given: Any) -> None:
            servers.postgres(18).command("DELETE FROM counterfoil.bills WHERE ctid = '(0,1)'", name)
            servers.postgres(18).command("UPDATE counterfoil.bills SET body = 'x' WHERE ctid = '(0,2)'", name)
            super()._verify(*given)

    monkeypatch.setattr("counterfoil.cli.copy.StoreMove", Clumsy)
    told = copied(service, target, "--cut-over", status=3)
    assert told["differences"] == [{"table": "bills", "group": "1", "atSource": 3, "atTarget": 2}]
    assert not told["opened"]
    monkeypatch.undo()
    assert service.ledger.advance_horizon()


def test_the_audit_is_moved_and_continues_at_the_target(service: RunningService, target: str) -> None:
    service.load(shop())
    key_id = service.key(shop="sh_1").split("_")[2]
    before = bootstrap.store(service.settings).reads().audit(10)
    copied(service, target)
    key_issuing.revoke(service.key_store, key_id, service.clock.now_ms(), OPERATOR)
    copied(service, target, "--cut-over")
    there = settings.load({"store": target}, {})
    after = bootstrap.store(there).reads().audit(10)
    acts = {(entry.act, entry.key_id) for entry in after}
    assert all(entry in after for entry in before)
    assert acts == {("key_issued", key_id), ("key_revoked", key_id), ("store_moved", None)}


def test_every_table_of_the_server_is_copied_or_accounted_for() -> None:
    there = servers.postgres(18).fresh_database()[0]
    tables = servers.postgres(18).command(
        "SELECT relname FROM pg_class WHERE relnamespace = 'counterfoil'::regnamespace "
        "AND relkind IN ('r', 'p') AND NOT relispartition",
        there,
    )
    settled_at_the_end = {"migrations", "deployment", "horizon", "generation"}
    # `floors` may start empty, because the target then uses its own horizon, which is never below the source's.
    # `watched_folders` may start empty, because each watcher reports its folder again to the store that it uses.
    starts_empty = {"floors", "watched_folders"}
    assert {name for (name,) in tables} == {table.name for table in TABLES} | settled_at_the_end | starts_empty


@pytest.mark.parametrize(
    ("source", "to", "complaint"),
    [
        ("sqlite:/nowhere/at/all", "postgresql://u:hush@h/d", "--from must be the folder"),
        ("postgresql://u:hush@h/d", "postgresql://u:hush@h/d", "--from must be the folder"),
        (".", "mysql://u:hush@h/d", "--to must start with postgresql://"),
        (".", "postgresql:/u:hush@h/d", "--to must start with postgresql://"),
        (".", "postgresql://u:hush/x@h/d", "--to is not a valid address"),
    ],
)
def test_unusable_addresses_are_refused_without_showing_their_password(source: str, to: str, complaint: str) -> None:
    result = CliRunner().invoke(program, ["copy", "--from", source, "--to", to], env=dict(os.environ))
    assert complaint in result.output
    assert "hush" not in result.output
