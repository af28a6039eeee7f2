"""Tests for the thread that reads the change feed ahead of the writer."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from client.scripted_service import Answer, scripted_service
from counterfoil.client import Client, NotThisService
from counterfoil.client.feed import ChangePage, ReadAhead, change_pages

PAGES = 3
SOON_SEC = 30.0


def at(number: int) -> str:
    return f"2026-01-31T12:00:{number:02}Z"


class Feed:
    """A service with a feed of three empty pages, which responds only when the test allows it."""

    def __init__(self) -> None:
        self.allowed = threading.Semaphore(0)
        self.bodies: list[dict[str, object]] = [
            {"data": [], "serverTime": at(number), "nextCursor": str(number + 1)} for number in range(PAGES - 1)
        ]
        self.bodies.append({"data": [], "serverTime": at(PAGES - 1), "mark": "m"})

    def answer(self, path: str, _headers: object) -> Answer:
        self.allowed.acquire()
        number = int(path.rpartition("cursor=")[2]) if "cursor=" in path else 0
        return 200, {}, json.dumps(self.bodies[number]).encode()


@contextmanager
def reading(feed: Feed) -> Iterator[ReadAhead[ChangePage]]:
    with (
        scripted_service(feed.answer) as url,
        Client(url, "key", per_min=1_000) as client,
        closing(ReadAhead(change_pages(client, None, None, 1_000), PAGES, "feed-reader")) as reader,
    ):
        yield reader
        feed.allowed.release(PAGES)


def test_the_reader_returns_nothing_until_the_next_page_has_arrived() -> None:
    feed = Feed()
    with reading(feed) as reader:
        assert reader.next(0) is None
        assert reader.next(0.05) is None
        feed.allowed.release()
        page = reader.next(SOON_SEC)
        assert page is not None
        assert page.server_time == at(0)
        assert reader.next(0) is None


def test_pages_come_in_the_order_of_the_feed() -> None:
    feed = Feed()
    feed.allowed.release(PAGES)
    with reading(feed) as reader:
        times = []
        for _ in range(PAGES):
            page = reader.next(SOON_SEC)
            assert page is not None
            times.append(page.server_time)
    assert times == [at(number) for number in range(PAGES)]


def test_the_error_of_a_request_is_raised_instead_of_the_page() -> None:
    feed = Feed()
    feed.bodies[0] = {"ok": True}
    feed.allowed.release()
    with reading(feed) as reader, pytest.raises(NotThisService):
        reader.next(SOON_SEC)
