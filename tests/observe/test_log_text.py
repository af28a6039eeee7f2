"""Tests for the text format of the log: one aligned line per event, for people at a terminal."""

from itertools import product

import pytest

from counterfoil import observe
from counterfoil.domain.problems import TABLE
from counterfoil.http.app import NO_ROUTE, ROUTES
from observe.counting_workers import served
from running_service import START_MS

KEY = "S3wrmumrawt4"


def text(event: observe.Event) -> str:
    return observe.text_line(START_MS, event)


def test_a_request_is_one_aligned_line() -> None:
    assert [
        text(served(key_id=KEY, route="members", took_us=12_623, sent=26_411, personal_base="b", personal_members=50)),
        text(served(key_id=KEY, route="transactions", took_us=314, status=403, error="shop_not_in_scope")),
        text(served(key_id=None, route="openapi.json", method="HEAD", took_us=1_250_000, sent=0)),
    ] == [
        "00:00:00Z 200  members           12.6 ms  S3wrmumrawt4  26.4 kB  disclosure: 50",
        "00:00:00Z 403  transactions      0.31 ms  S3wrmumrawt4  shop_not_in_scope",
        "00:00:00Z 200  HEAD openapi.json  1.25 s  -                 0 B",
    ]


def test_every_line_of_a_request_fits_80_columns() -> None:
    routes = [*ROUTES, NO_ROUTE]
    for route, problem in product(routes, (None, *TABLE)):
        line = text(
            served(
                key_id=KEY,
                route=route,
                status=problem.status if problem else 200,
                error=problem.code if problem else None,
                took_us=999_499,
                sent=999_499,
                personal_base=None if problem else "b",
                personal_members=200,
            )
        )
        assert len(line) <= 80, line


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (observe.ServiceChanged(what="ready", detail="127.0.0.1:8000"), "00:00:00Z ready            127.0.0.1:8000"),
        (observe.ServiceChanged(what="stopped"), "00:00:00Z stopped"),
        (observe.ServerMessage(level="error", message="died\x1b"), "00:00:00Z server error     died\\x1b"),
        (
            observe.StoreFailed(request_id="r_1", route="shops", reason="SQLite: disk I/O error"),
            "00:00:00Z store failed     shops: SQLite: disk I/O error (request r_1)",
        ),
        (
            observe.HandlerCrashed(request_id="r_1", route="shops", exception="KeyError", where=["shops:12", "page:3"]),
            "00:00:00Z crash            shops: KeyError in shops:12 < page:3 (request r_1)",
        ),
        (observe.ServerChanged(server="pg2:5432", role="primary"), "00:00:00Z database server  pg2:5432 is primary"),
        (
            observe.CountsReseeded(key_id=KEY, day="20260101", count=1234),
            f"00:00:00Z counts reseeded  key {KEY}, 20260101: 1,234 requests",
        ),
    ],
)
def test_other_events_say_what_happened(event: observe.Event, line: str) -> None:
    assert text(event) == line


def test_control_characters_do_not_reach_the_terminal() -> None:
    line = text(observe.ServiceChanged(what="x", detail="two\nlines \x1b[2J ไทย"))
    assert line == "00:00:00Z x                two\\nlines \\x1b[2J ไทย"
    assert "\n" not in text(served(method="A\nB"))


def test_colours_change_nothing_but_the_colour() -> None:
    event = served(key_id=KEY, status=500, error="internal")
    painted = observe.text_line(START_MS, event, in_colour=True)
    assert "\033[31m500\033[0m" in painted
    for code in ("2", "31", "36", "0"):
        painted = painted.replace(f"\033[{code}m", "")
    assert painted == text(event)
