"""The example clients in docs/own-client.md keep an exact copy, apart from the exceptions named in that document."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

import records as r
from client.copy_contents import assert_same
from client.example_clients import Client, CurlClient, PythonClient
from client.pulled_copy import Copy
from client.scripted_service import Answer, proxy
from running_service import RunningService

pytestmark = [pytest.mark.programs, pytest.mark.parametrize("target", ["duckdb"], indirect=True)]

MORE_THAN_A_PAGE = 210
PYTHON = pytest.param(PythonClient, id="python")
EXAMPLES = [PYTHON, pytest.param(CurlClient, id="curl")]
# Every request by the curl client starts two processes, so its longer tests run only in `make test-long`.
CURL_LATER = [PYTHON, pytest.param(CurlClient, id="curl", marks=pytest.mark.long)]


@pytest.fixture(params=CURL_LATER)
def client(request: pytest.FixtureRequest, copy: Copy, tmp_path: Path) -> Client:
    """An example client that has not run yet."""
    if request.param is PythonClient:
        pytest.importorskip("requests")
    elif not (shutil.which("bash") and shutil.which("curl") and shutil.which("jq")):
        pytest.skip("bash, curl or jq is not on the PATH, so the curl client was NOT run")
    made: Client = request.param(tmp_path / "client", copy.url, copy.key)
    return made


@pytest.fixture
def sister(branch: r.Record) -> r.Record:
    """A second branch of the same franchise, with its own base, not loaded yet."""
    return r.branch(franchiseId=branch["franchiseId"])


def assert_equal(client: Client, copy: Copy) -> None:
    served = copy.served()
    assert_same(client.bills(), served["bills"])
    assert_same(client.members(), {token: member for (_, token), member in served["members"].items()})


def identities(*records: r.Record) -> set[tuple[str, str]]:
    return {(record["shopId"], record["id"]) for record in records}


# --- runs of a client ---------------------------------------------------------------------


def test_the_first_run_copies_every_bill_and_member(client: Client, copy: Copy) -> None:
    copy.load(*r.bills(copy.branch, MORE_THAN_A_PAGE), *(r.bill(copy.branch, closedAt=None) for _ in range(3)))
    copy.load(*r.bills(copy.branch, 3, history=True), *r.members(copy.branch, 20))
    client.run()
    assert_equal(client, copy)
    assert set(client.marks()) == {copy.branch["id"]}


@pytest.mark.parametrize("client", EXAMPLES, indirect=True)
def test_later_runs_copy_every_change(client: Client, copy: Copy, branch: r.Record, service: RunningService) -> None:
    voided, edited, losing_its_date, undated = (r.bill(branch) for _ in range(4))
    undated |= {"closedAt": None}
    old, leaving = r.bill(branch, history=True), r.member(branch)
    service.load(voided, edited, losing_its_date, undated, old, leaving)
    client.run()
    client.run()
    assert_equal(client, copy)
    service.clock.advance(1)
    service.load(
        voided | {"void": {"reason": "mistake"}},
        edited | {"lines": [r.line(name="Rice", total=20)]},
        losing_its_date | {"closedAt": "some time"},
        undated | {"cashier": "Lek"},
        old | {"cashier": "Lek"},
        r.removal(leaving),
        r.bill(branch, closedAt=None),
        *r.bills(branch, MORE_THAN_A_PAGE),
    )
    client.run()
    assert_equal(client, copy)


def test_two_shops_may_use_the_same_bill_id(client: Client, copy: Copy, sister: r.Record) -> None:
    copy.load(sister, r.bill(copy.branch, id="R-1"), r.bill(sister, id="R-1"))
    client.run()
    copy.load(r.bill(sister, id="R-1", cashier="Lek"))
    client.run()
    assert_equal(client, copy)


# --- shops that join, leave and return ------------------------------------------------------


def test_a_shop_that_joins_is_read_with_all_its_history(client: Client, copy: Copy, sister: r.Record) -> None:
    copy.load(sister, *r.bills(sister, 3), r.bill(sister, closedAt=None), *r.members(sister, 2), r.removal(sister))
    client.run()
    newcomer = r.branch(franchiseId=copy.branch["franchiseId"])
    copy.load(sister, newcomer, *r.bills(newcomer, 3, history=True), r.bill(newcomer, closedAt=None))
    client.run()
    assert set(client.marks()) == {copy.branch["id"], sister["id"], newcomer["id"]}
    assert_equal(client, copy)


def sold(shop: r.Record) -> r.Record:
    return shop | {"franchiseId": r.fresh("franchise")}


@pytest.mark.parametrize("leaves", [r.removal, sold])
def test_a_shop_that_leaves_keeps_its_bills_and_one_that_returns_is_read_in_full(
    client: Client, copy: Copy, sister: r.Record, leaves: Callable[[r.Record], r.Record]
) -> None:
    changing, going, undated = r.bill(sister), r.bill(sister), r.bill(sister, closedAt=None)
    copy.load(sister, changing, going, undated, *r.members(sister, 2))
    client.run()
    before, members = client.bills(), client.members()

    copy.load(leaves(sister), changing | {"void": True}, r.bill(copy.branch))
    client.run()
    assert set(client.marks()) == {copy.branch["id"]}
    kept = {identity: bill for identity, bill in before.items() if identity[0] == sister["id"]}
    assert_same(client.bills(), copy.served()["bills"] | kept)
    assert_same(client.members(), members)

    copy.load(r.removal(going), r.removal(undated), r.bill(sister, history=True), r.bill(sister, closedAt=None))
    client.run()
    copy.load(sister)
    client.run()
    assert_equal(client, copy)
    client.run()
    assert_equal(client, copy)


# --- limits of the procedure ---------------------------------------------------------------


def test_a_full_read_shows_what_a_read_by_change_does_not(client: Client, copy: Copy) -> None:
    gone, undated_gone, reimported = r.bill(copy.branch), r.bill(copy.branch, closedAt=None), r.bill(copy.branch)
    copy.load(gone, undated_gone, reimported)
    client.run()
    before = client.bills()
    late = r.bill(copy.branch, closedAt="2025-12-05T12:00:00+07:00", history=True)
    copy.load(*(r.removal(bill) for bill in (gone, undated_gone, reimported)))
    copy.load(reimported | {"history": True, "cashier": "Lek"}, late, r.bill(copy.branch))
    client.run()
    served = copy.served()["bills"]
    missed = {identity: before[identity] for identity in identities(gone, undated_gone, reimported)}
    assert identities(late) <= served.keys()
    assert_same(client.bills(), {key: bill for key, bill in served.items() if key[1] != late["id"]} | missed)
    client.run("--full")
    assert_equal(client, copy)


def test_only_history_outside_the_windows_is_missed(client: Client, copy: Copy) -> None:
    client.first_day = ""  # The client then uses its default, 2025-01-01.
    days = "2024-12-31T12:00:00+07:00", "2026-12-15T12:00:00+07:00"
    outside = [r.bill(copy.branch, closedAt=day, history=True) for day in days]
    copy.load(*outside, *(r.bill(copy.branch, closedAt=day) for day in days))
    inside = "2025-01-01T12:00:00+07:00", "2026-02-01T12:00:00+07:00"
    copy.load(*(r.bill(copy.branch, closedAt=day, history=True) for day in inside))
    client.run()
    assert copy.served()["bills"].keys() - client.bills().keys() == identities(*outside)


# --- changes during a run --------------------------------------------------------------------


def asked(path: str) -> dict[str, str]:
    """Return the parameters of a request, keyed by name, and the last segment of its path as `path`."""
    parts = urlsplit(path)
    return {
        "path": parts.path.rsplit("/", 1)[-1],
        **{name: values[0] for name, values in parse_qs(parts.query).items()},
    }


def once(matches: Callable[[dict[str, str]], Any], action: Callable[[], Any]) -> Callable[[str], Answer | None]:
    """Return a hook for `proxy` that calls `action` before the first matching request.

    If `action` returns a response, the client receives that response.
    """
    waiting = [action]

    def happens(path: str) -> Answer | None:
        if waiting and matches(asked(path)):
            done = waiting.pop()()
            return done if isinstance(done, tuple) else None
        return None

    return happens


def test_a_bill_that_moves_between_windows_during_the_first_run_is_not_lost(client: Client, copy: Copy) -> None:
    moving = r.bill(copy.branch, closedAt="2026-01-20T12:00:00+07:00")
    copy.load(moving)
    back = moving | {"closedAt": "2025-12-20T12:00:00+07:00"}
    with proxy(copy.service, once(lambda query: query.get("from", "") > "202512", lambda: copy.load(back))) as url:
        client.run(url=url)
    assert identities(moving) <= client.bills().keys()
    client.run()
    assert_equal(client, copy)


@pytest.mark.parametrize("full", [True, False])
def test_bills_that_change_between_two_pages_are_copied_in_the_next_run(client: Client, copy: Copy, full: bool) -> None:
    bills = [*r.bills(copy.branch, MORE_THAN_A_PAGE), *(r.bill(copy.branch, closedAt=None) for _ in range(3))]
    if full:
        copy.load(*bills)
    else:
        client.run()
        copy.load(*bills)
    changed = [bill | {"cashier": "Lek"} for bill in (bills[0], bills[100], bills[-1])]
    second_page = once(lambda query: "updatedSince" in query and "cursor" in query, lambda: copy.load(*changed))
    with proxy(copy.service, second_page) as url:
        client.run(url=url)
    client.run()
    assert_equal(client, copy)


def test_a_list_whose_cursor_is_no_longer_valid_is_read_again(client: Client, copy: Copy) -> None:
    copy.load(*r.bills(copy.branch, MORE_THAN_A_PAGE), *r.members(copy.branch, 20))
    gone: list[r.Record] = []

    def remove_the_row_of_the_first_cursor(path: str) -> None:
        cursor = asked(path).get("cursor")
        if cursor and not gone:
            gone.append(r.bill(copy.branch, id=cursor))
            copy.load(r.removal(gone[0]))

    with proxy(copy.service, remove_the_row_of_the_first_cursor) as url:
        client.run(url=url)
    assert client.bills().keys() - copy.served()["bills"].keys() == identities(*gone)
    client.run("--full")
    assert_equal(client, copy)


@pytest.mark.parametrize("client", EXAMPLES, indirect=True)
def test_a_client_pauses_longer_each_time_before_it_starts_a_refused_list_again(client: Client, copy: Copy) -> None:
    copy.load(*r.bills(copy.branch, MORE_THAN_A_PAGE))
    refusal: Answer = (400, {}, b'{"ok":false,"error":"bad_cursor","message":"A replica lags."}')
    refused: list[float] = []
    pauses: list[float] = []

    def refuse_two_cursors(path: str) -> Answer | None:
        if len(refused) > len(pauses):
            pauses.append(time.monotonic() - refused[-1])
        if "cursor" not in asked(path) or len(refused) == 2:
            return None
        refused.append(time.monotonic())
        return refusal

    with proxy(copy.service, refuse_two_cursors) as url:
        client.run(url=url)
    assert pauses[0] > 0.9
    assert pauses[1] > 1.9
    assert_equal(client, copy)


@pytest.mark.parametrize("joined", [True, False])
def test_a_shop_that_leaves_in_the_middle_of_a_pass_stays_as_it_was(
    client: Client, copy: Copy, branch: r.Record, sister: r.Record, service: RunningService, joined: bool
) -> None:
    service.load(sister, *r.bills(sister, 2), *r.members(sister, 2))
    before = {}
    if not joined:
        client.run()
        before = {identity: bill for identity, bill in client.bills().items() if identity[0] == sister["id"]}
    service.load(*r.bills(sister, MORE_THAN_A_PAGE), r.bill(branch))
    second_page = once(
        lambda query: query.get("shopId") == sister["id"] and "cursor" in query, lambda: service.load(sold(sister))
    )
    with proxy(service, second_page) as url:
        client.run(url=url)
    assert set(client.marks()) == {branch["id"]}
    assert_same(client.bills(), copy.served()["bills"] | before)
    service.load(sister)
    client.run()
    assert_equal(client, copy)


def test_a_run_that_fails_moves_the_marks_of_finished_shops_only(client: Client, copy: Copy, sister: r.Record) -> None:
    copy.load(sister, *r.bills(sister, 2))
    client.run()
    marks, before = client.marks(), client.bills()
    copy.load(r.bill(copy.branch), *r.bills(sister, MORE_THAN_A_PAGE))
    refusal: Answer = (404, {}, b'{"ok":false,"error":"not_found","message":"A proxy was misconfigured."}')
    second_page = once(lambda query: query.get("shopId") == sister["id"] and "cursor" in query, lambda: refusal)
    with proxy(copy.service, second_page) as url:
        failed = client.start(url=url)
    assert failed.returncode != 0
    assert failed.stderr
    assert client.marks()[copy.branch["id"]] > marks[copy.branch["id"]]
    assert client.marks()[sister["id"]] == marks[sister["id"]]
    assert {identity for identity in client.bills() if identity[0] == sister["id"]} <= before.keys()
    client.run()
    assert_equal(client, copy)
