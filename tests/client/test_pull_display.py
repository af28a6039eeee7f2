"""The output of a pull on a terminal."""

import io

import pytest
from rich.console import Console

from counterfoil.cli.pull_display import PullDisplay, allowance, speed, stage, time_left
from counterfoil.client.pages import Tally

NAME = "ครัวลำดวน Lamduan Kitchen [/bold] [red]: 2026-05-14 to 2026-06-13"


def shown(tally: Tally, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    glance = PullDisplay(console)
    glance.show(tally)
    with console.capture() as captured:
        console.print(glance.get_renderable())
    return [line.rstrip() for line in captured.get().splitlines()]


@pytest.mark.parametrize("width", [80, 100, 200])
def test_all_output_fits_a_terminal_of_eighty_columns(width: int) -> None:
    tally = Tally(
        shops=12,
        shops_done=6,
        bases=1,
        requests=99,
        bills_read=123_456,
        remaining=999_680,
        reading=NAME,
        list_share_done=0.5,
    )
    first, second = shown(tally, width)
    for part in ("shop 7 of 12", "━━━", "123,456 bills", "quota left: 999,680", " s left"):
        assert part in first
    assert second.startswith("  ครัวลำดวน Lamduan Kitchen [/bold] [red]: 2026-05-14")


def test_the_remaining_time_is_estimated_only_after_some_progress() -> None:
    assert time_left(Tally(shops=10), 30) == ""
    assert time_left(Tally(shops=10, shops_done=5), 30) == "30 s left"
    assert time_left(Tally(shops=10, shops_done=1), 60) == "9 min left"
    assert time_left(Tally(shops=100, shops_done=2, list_share_done=0.5), 600) == "6.5 h left"


def test_the_members_are_the_last_stage() -> None:
    tally = Tally(shops=2, shops_done=2, bases=1, bills_read=5, members_read=1200)
    assert (stage(tally), speed(tally, 10)) == ("members", "1,200 members, 120/s")
    assert tally.share_done == pytest.approx(2 / 3)


def test_unknown_quantities_are_not_displayed() -> None:
    tally = Tally(bills_read=7)
    assert (speed(tally, 0.1), allowance(tally), tally.share_done) == ("7 bills", "", 0)
