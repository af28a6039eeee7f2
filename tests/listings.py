"""The three paginated lists, with methods to load rows, move rows to the end of a list, and read a list page by page.

Rows are numbered 1, 2, 3 in the order in which the list first returns them.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from records import EVER, Record, branch, fresh, member
from running_service import RunningService

FIRST_SLOT = datetime.fromisoformat("2026-01-01T00:00:00+07:00")
UNLIMITED = 10**9
DAY_SEC = 86_400
# Only pages requested with at most this limit are checked against the OpenAPI document, because checking a page of
# 200 rows takes longer than reading the page.
CHECKED_LIMIT = 10


class Page(NamedTuple):
    rows: list[int]
    cursor: str | None
    server_time: datetime


class Listing:
    """A list of the bills or members of a new branch, and a key that can read it."""

    path = "transactions"
    identity = "id"

    def __init__(self, service: RunningService, rows: int, *, id_form: str = "x{:06}") -> None:
        self.service = service
        self.branch = branch()
        self._id_form = id_form
        self._members = fresh("member")
        self._slots: dict[int, int] = {}
        self._last_slot = 0
        self._edits = 0
        self._numbers: dict[str, int] = {}
        service.load(self.branch)
        self.add(rows)
        self.key = self.new_key()

    @property
    def query(self) -> dict[str, Any]:
        """Return the parameters that select the list."""
        raise NotImplementedError

    @property
    def other_queries(self) -> list[dict[str, Any]]:
        """Return parameters that select other lists of the same rows."""
        return []

    def new_key(self) -> str:
        return self.service.key(franchise=self.branch["franchiseId"], per_min=UNLIMITED, per_day=UNLIMITED)

    # --- rows ------------------------------------------------------------------------

    @property
    def size(self) -> int:
        return len(self._slots)

    def row_id(self, number: int) -> str:
        return self._id_form.format(number)

    def record(self, number: int) -> Record:
        """Return the current source record of a row."""
        return {
            "kind": "bill",
            "id": self.row_id(number),
            "shopId": self.branch["id"],
            "closedAt": self._time(number),
            "cashier": f"cashier {self._edits}",
        }

    def add(self, rows: int) -> None:
        """Append rows to the list."""
        self._load(range(self.size + 1, self.size + rows + 1))

    def move(self, *numbers: int) -> None:
        """Move rows to the end of the list, in this order."""
        self._load(numbers)

    def edit(self, number: int) -> None:
        """Change a row. In the list by day and the list of members it keeps its position."""
        self._edits += 1
        self.service.tick()
        self.service.load(self.record(number))

    def remove(self, number: int) -> None:
        record = self.record(number)
        self.service.load(
            {name: record[name] for name in ("kind", "id", "shopId") if name in record} | {"removed": True}
        )

    def _load(self, numbers: Sequence[int]) -> None:
        self._edits += 1
        self.service.tick()
        for number in numbers:
            self._last_slot += 1
            self._slots[number] = self._last_slot
            self._numbers[self.row_id(number)] = number
        self.service.load(*map(self.record, numbers), batch=1000)

    def _time(self, number: int) -> str:
        return (FIRST_SLOT + timedelta(minutes=self._slots[number])).isoformat()

    # --- reading ---------------------------------------------------------------------

    def page(self, limit: int, cursor: str | None = None, *, key: str | None = None) -> Page:
        query = self.query | {"limit": limit} | ({} if cursor is None else {"cursor": cursor})
        get = self.service.get if limit <= CHECKED_LIMIT else self.service.get_unchecked
        body = get(self.path, key or self.key, **query).json()
        assert body["ok"], body
        rows = [self._numbers[row[self.identity]] for row in body["data"]]
        if body["nextCursor"] is not None:
            assert len(rows) == limit, "a page that is followed by another one must be full"
        return Page(rows, body["nextCursor"], datetime.fromisoformat(body["serverTime"]))

    def cursor(self, limit: int) -> str:
        """Return the cursor of the first page."""
        cursor = self.page(limit).cursor
        assert cursor
        return cursor

    def pages(self, limit: int, cursor: str | None = None, *, key: str | None = None) -> Iterator[Page]:
        """Yield the pages from a cursor, or from the start, to the end of the list."""
        most = self.size // limit + 3
        for _ in range(most):
            page = self.page(limit, cursor, key=key)
            yield page
            cursor = page.cursor
            if cursor is None:
                return
        raise AssertionError(f"the pass does not end within {most} pages")

    def rows(self, limit: int, cursor: str | None = None, *, key: str | None = None) -> list[int]:
        """Return the numbers of the rows from a cursor, or from the start, to the end of the list."""
        return [number for page in self.pages(limit, cursor, key=key) for number in page.rows]

    def changed_since(self, mark: datetime) -> set[int]:
        """Return the numbers of the bills that have changed since this mark."""
        query = {"shopId": self.branch["id"], "updatedSince": mark.isoformat(), "limit": 200}
        # A new key is used, so that the cursors of the readers are not affected.
        body = self.service.get_unchecked("transactions", self.new_key(), **query).json()
        assert body["nextCursor"] is None, "more changes than fit on one page"
        return {self._numbers[row["id"]] for row in body["data"]}

    def error(self, cursor: str, *, key: str | None = None, **query: Any) -> str | None:
        """Return the error code for this cursor, or None if it is accepted."""
        asked: dict[str, Any] = {"limit": 1, "cursor": cursor} | (query or self.query)
        body: Record = self.service.get(self.path, key or self.key, **asked).json()
        return body.get("error")


class ChangeList(Listing):
    """The list of bills by last change."""

    @property
    def query(self) -> dict[str, Any]:
        return {"shopId": self.branch["id"], "updatedSince": EVER}

    @property
    def other_queries(self) -> list[dict[str, Any]]:
        return [self.query | {"updatedSince": "2000-01-01T00:00:00.001Z"}, _days(self.branch)]


class DayList(Listing):
    """The list of bills by day."""

    @property
    def query(self) -> dict[str, Any]:
        return _days(self.branch)

    @property
    def other_queries(self) -> list[dict[str, Any]]:
        changes = {"shopId": self.branch["id"], "updatedSince": EVER}
        return [self.query | {"to": "20260130"}, self.query | {"from": "20251231", "to": "20260130"}, changes]


class MemberList(Listing):
    """The list of members of a base. A member moves when the POS corrects the sign-up time."""

    path = "members"
    identity = "memberId"

    @property
    def query(self) -> dict[str, Any]:
        return {"providerId": self.branch["providerId"]}

    def row_id(self, number: int) -> str:
        return self.service.token(self._source_id(number))

    def record(self, number: int) -> Record:
        created_at = self._time(number)
        return member(self.branch, id=self._source_id(number), createdAt=created_at, points=self._edits)

    def _source_id(self, number: int) -> str:
        return f"{self._members}-{number}"


def _days(of: Record) -> dict[str, Any]:
    return {"shopId": of["id"], "from": "20260101", "to": "20260131"}
