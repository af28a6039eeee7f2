"""While the store cannot be written to, a worker's tally keeps the newest ranges of changes that were read."""

import random

from counterfoil.domain.request_records import CHANGES_OF_SHOP, MAX_RANGES, RequestTally, from_text

LIST = ("k_1", CHANGES_OF_SHOP, "sh_1")


def tally_of(*passes: tuple[int, int]) -> RequestTally:
    tally = RequestTally()
    for since, horizon in passes:
        tally.add_page(LIST, since, horizon, is_last=True, at=horizon)
    return tally


def ranges(tally: RequestTally) -> list[tuple[int, int]]:
    return from_text(tally.progress()[LIST].covered)


def test_passes_that_follow_each_other_are_one_range() -> None:
    assert ranges(tally_of((0, 10), (10, 20), (20, 20), (15, 30))) == [(0, 30)]


def test_the_order_of_passes_does_not_matter() -> None:
    passes = [(0, 10), (10, 20), (30, 40), (40, 50), (5, 15), (70, 80)]
    for seed in range(20):
        shuffled = random.Random(seed).sample(passes, len(passes))  # noqa: S311 - chooses the order of a test
        assert ranges(tally_of(*shuffled)) == [(0, 20), (30, 50), (70, 80)]


def test_a_pass_from_before_1970_begins_at_0() -> None:
    assert ranges(tally_of((-5, 10))) == [(0, 10)]
    assert ranges(tally_of((-5, 10), (20, 30))) == [(0, 10), (20, 30)]


def test_a_tally_that_could_not_be_written_is_added_with_its_gaps() -> None:
    newer = tally_of((30, 40), (60, 70))
    newer.add_all(tally_of((0, 10), (20, 30), (45, 50)))
    assert ranges(newer) == [(0, 10), (20, 40), (45, 50), (60, 70)]
    assert newer.progress()[LIST].ended_at == 70
    empty = RequestTally()
    empty.add_all(tally_of((0, 10), (20, 30)))
    assert ranges(empty) == [(0, 10), (20, 30)]


def test_the_memory_for_the_ranges_of_a_list_is_limited() -> None:
    passes = [(at, at + 1) for at in range(0, 5_000, 10)]
    assert ranges(tally_of(*passes)) == passes[-MAX_RANGES:]


def test_a_pass_that_asks_only_for_later_changes_adds_no_range_but_counts_as_ended() -> None:
    tally = tally_of((99, 10))
    assert ranges(tally) == []
    assert tally.progress()[LIST].ended_at == 10
    tally.add_page(LIST, 5, 20, is_last=True, at=20)
    tally.add_page(LIST, 99, 30, is_last=True, at=30)
    assert ranges(tally) == [(5, 20)]
    assert tally.progress()[LIST].ended_at == 30
    tally.add_page(LIST, 20, 40, is_last=True, at=40)
    assert ranges(tally) == [(5, 40)]
