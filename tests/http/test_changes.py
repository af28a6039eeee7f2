"""GET /v1/changes over HTTP: marks, cursors and pages. tests/ports/test_change_feed.py covers the contents."""

import base64
from pathlib import Path
from typing import Any

import pytest

from counterfoil import bootstrap
from counterfoil.domain.audit import AUTOMATIC
from counterfoil.domain.change_feed import REMOVALS_KEPT_MS
from records import Record, bill, bills, branch, removal
from running_service import RunningService

KEPT_SEC = REMOVALS_KEPT_MS / 1000


def page(service: RunningService, key: str, **query: Any) -> Record:
    body: Record = service.get("changes", key, **query).json()
    assert body["ok"], body
    return body


def read(service: RunningService, key: str, **query: Any) -> tuple[list[Record], str]:
    """Make one complete pass; return its elements and its mark."""
    *pages, last = service.pages("changes", key, **query)
    assert [page["mark"] for page in pages] == [None] * len(pages)
    return [element for page in (*pages, last) for element in page["data"]], last["mark"]


def loaded(service: RunningService, number: int) -> Record:
    """Return a branch with this many bills that are in the feed."""
    of = branch()
    service.load(of, *bills(of, number))
    service.tick()
    return of


@pytest.fixture
def of(shared_service: RunningService) -> Record:
    """A branch with five bills."""
    return loaded(shared_service, 5)


@pytest.fixture
def key(shared_service: RunningService, of: Record) -> str:
    return shared_service.key(franchise=of["franchiseId"], per_min=1000)


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 100])
def test_a_pass_is_read_page_by_page_and_its_last_page_has_the_mark(
    shared_service: RunningService, of: Record, key: str, limit: int
) -> None:
    elements, mark = read(shared_service, key, limit=limit)
    assert [element["type"] for element in elements] == ["shop"] + ["bill"] * 5
    assert all(element["shopId"] == of["id"] for element in elements)
    assert read(shared_service, key, since=mark, limit=limit) == ([], mark)


def test_all_pages_of_a_pass_have_the_server_time_of_the_first(
    shared_service: RunningService, of: Record, key: str
) -> None:
    first = page(shared_service, key, limit=2)
    shared_service.load(bill(of))
    shared_service.tick()
    second = page(shared_service, key, limit=2, cursor=first["nextCursor"])
    assert second["serverTime"] == first["serverTime"]


def test_a_limit_is_never_refused(shared_service: RunningService) -> None:
    of = loaded(shared_service, 118)
    key = shared_service.key(franchise=of["franchiseId"])
    for limit, size in (("x", 100), ("2.9", 2), ("99999999999", 119)):
        assert len(shared_service.get_unchecked("changes", key, limit=limit).json()["data"]) == size


def test_marks_and_cursors_survive_the_rotation_of_their_key(
    shared_service: RunningService, of: Record, key: str
) -> None:
    _, mark = read(shared_service, key)
    cursor = page(shared_service, key, limit=2)["nextCursor"]
    successor = shared_service.rotated(key)
    assert read(shared_service, successor, since=mark)[0] == []
    assert page(shared_service, successor, limit=2, cursor=cursor)["data"]


def test_a_mark_or_cursor_of_another_key_or_scope_or_of_the_other_kind_is_refused(
    shared_service: RunningService, of: Record, key: str
) -> None:
    _, mark = read(shared_service, key)
    cursor = page(shared_service, key, limit=2)["nextCursor"]
    for other in (shared_service.key(franchise=of["franchiseId"]), shared_service.key(shop=of["id"])):
        assert shared_service.error("changes", other, since=mark) == "bad_cursor"
        assert shared_service.error("changes", other, cursor=cursor) == "bad_cursor"
    assert shared_service.error("changes", key, cursor=mark) == "bad_cursor"
    assert shared_service.error("changes", key, since=cursor) == "bad_cursor"


def test_every_tampered_mark_or_cursor_is_refused(shared_service: RunningService, of: Record) -> None:
    key = shared_service.key(franchise=of["franchiseId"], per_min=10_000)
    _, mark = read(shared_service, key)
    cursor = page(shared_service, key, limit=2)["nextCursor"]
    for name, text in (("since", mark), ("cursor", cursor)):
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        for byte in range(len(data)):
            changed = data[:byte] + bytes([data[byte] ^ 1]) + data[byte + 1 :]
            forged = base64.urlsafe_b64encode(changed).decode().rstrip("=")
            assert shared_service.error("changes", key, **{name: forged}) == "bad_cursor"
        for other in (text + "=", text + "A", text[:-1], " " + text, text.swapcase(), "", "é", "\ud800"):
            query = {name: other.encode("utf-8", "surrogatepass").decode("latin-1")}
            assert shared_service.error("changes", key, **query) == "bad_cursor"


def test_a_cursor_is_valid_only_with_the_mark_of_its_pass(shared_service: RunningService, of: Record, key: str) -> None:
    _, mark = read(shared_service, key)
    shared_service.load(*bills(of, 3))
    shared_service.tick()
    _, later = read(shared_service, key)
    whole = page(shared_service, key, limit=2)["nextCursor"]
    changed = page(shared_service, key, since=mark, limit=2)["nextCursor"]
    assert page(shared_service, key, since=mark, limit=2, cursor=changed)["data"]
    assert shared_service.error("changes", key, cursor=changed) == "bad_cursor"
    assert shared_service.error("changes", key, since=mark, cursor=whole) == "bad_cursor"
    assert shared_service.error("changes", key, since=later, cursor=changed) == "bad_cursor"


def test_the_tag_of_a_pass_without_changes_stays_the_same(shared_service: RunningService, key: str) -> None:
    _, mark = read(shared_service, key)
    tag = shared_service.get("changes", key, since=mark).headers["etag"]
    shared_service.tick()
    again = shared_service.get("changes", key, since=mark, headers={"if-none-match": tag})
    assert again.status_code == 304


def test_the_tag_changes_with_the_elements(shared_service: RunningService, of: Record, key: str) -> None:
    _, mark = read(shared_service, key)
    seen = set()
    sold = bill(of)
    for record in (sold, sold | {"cashier": "Ying"}, removal(sold)):
        shared_service.load(record)
        shared_service.tick()
        seen.add(shared_service.get("changes", key, since=mark).headers["etag"])
    assert len(seen) == 3


# --- tests that need their own service ---------------------------------------------


def test_a_mark_is_refused_after_four_hundred_days(service: RunningService) -> None:
    of = loaded(service, 1)
    key = service.key(franchise=of["franchiseId"])
    _, mark = read(service, key)
    service.tick(KEPT_SEC - 1)
    assert read(service, key, since=mark)[0] == []
    cursor = page(service, key, limit=1)["nextCursor"]
    service.tick(2)
    assert service.error("changes", key, since=mark) == "mark_expired"
    assert page(service, key, cursor=cursor)["data"]
    assert read(service, key)[0]


def test_a_mark_from_a_later_state_of_the_store_is_refused(service: RunningService) -> None:
    """This happens if an operator restores the store by hand while the clock is behind."""
    of = loaded(service, 1)
    key = service.key(franchise=of["franchiseId"])
    _, mark = read(service, key)
    ledger: Any = service.ledger
    connection = ledger._line() if service.settings.database else ledger._connection
    connection.execute("UPDATE horizon SET at = at - 1")
    assert service.error("changes", key, since=mark) == "mark_expired"


def test_a_mark_from_before_a_restore_is_refused(tmp_path: Path) -> None:
    """A client may have received changes that are not in the backup."""
    service = RunningService(tmp_path)
    of = loaded(service, 3)
    key = service.key(franchise=of["franchiseId"])
    _, mark = read(service, key)
    bootstrap.back_up(service.settings, tmp_path / "backup", with_secret=False, clock=service.clock)
    service.load(bill(of))
    service.tick()
    cursor = page(service, key, limit=2)["nextCursor"]
    elements, later = read(service, key, since=mark)
    assert len(elements) == 1
    service.close()
    restored = bootstrap.restore(service.settings, tmp_path / "backup", replace=True, clock=service.clock, by=AUTOMATIC)
    again = RunningService(tmp_path)
    assert restored.horizon > service.clock.now_ms() - 1000
    for query in ({"since": mark}, {"since": later}, {"cursor": cursor}):
        assert again.error("changes", key, **query) == "mark_expired"
    elements, fresh = read(again, key)
    assert len(elements) == 4
    assert read(again, key, since=fresh)[0] == []
    again.close()
