"""The totals of a campaign that runs in several slices include every slice."""

from pathlib import Path

from hostile.slices import Slice, Slices


def done(part: str, totals: dict[str, int | float], *, faults: list[str] | None = None, next_number: int = 0) -> Slice:
    return Slice(part, "sqlite", 7, 60.0, 2.0, 5.0, totals, faults or [], next_number)


def test_whole_numbers_are_added_up_and_of_the_others_the_largest_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "slices"
    Slices(file).add(done("revocations", {"calls": 10, "latest": 0.3}, faults=["late"]))
    Slices(file).add(done("requests", {"calls": 1_000}))
    Slices(file).add(done("revocations", {"calls": 5, "latest": 0.2}))
    combined = Slices(file).combined("revocations", "sqlite")
    assert combined.totals == {"calls": 15, "latest": 0.3}
    assert combined.faults == ["late"]
    assert combined.seconds == 120
    assert (combined.load_before, combined.load_after) == (2.0, 5.0)


def test_the_next_slice_continues_after_the_last_request_with_the_same_seed(tmp_path: Path) -> None:
    file = tmp_path / "slices"
    assert Slices(file).next_number("sqlite", 7) == 0
    Slices(file).add(done("requests", {}, next_number=16_000))
    Slices(file).add(done("triples", {}, next_number=99_000))
    assert Slices(file).next_number("sqlite", 7) == 16_000
    assert Slices(file).next_number("sqlite", 8) == 0
    assert Slices(file).next_number("postgres", 7) == 0
