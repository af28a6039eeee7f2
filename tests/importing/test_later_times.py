"""A later file with other times or numbers than the sample, or with each row twice, is refused by its first row."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from counterfoil.importer.form import FormFiles
from counterfoil.importer.proposal import form
from counterfoil.importing.results import ImportFailed
from importing.exports import Outcome, imported, written

TODAY = date(2026, 12, 20)
BILLS_OF_DAY = (11, 12, 12, 13, 15, 18, 18, 19, 20, 21)


def export(write: Callable[[datetime], str], *, first: int, number: str = "{}") -> str:
    """Return the bills of three days, 10 on each."""
    rows = ["Bill No,Date,Total"]
    for place in range(30):
        day, hour = place // 10, BILLS_OF_DAY[place % 10]
        time = datetime(2026, 11, 13 + day + first // 1000, hour, 5 + place, tzinfo=UTC)
        rows.append(f"{number.format(first + place)},{write(time)},{40 + place * 7}.50")
    return "\n".join([*rows, ""])


def local(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M}"


def later(folder: Path, text: str, sample_number: str = "{}") -> Outcome:
    sample = written(folder, export(local, first=1001, number=sample_number), "sample.csv")
    accepted = form(FormFiles((sample,)), {}, today=TODAY)
    assert accepted.is_complete, (accepted.open, accepted.advice)
    assert "hours = [11, 21]" in accepted.mapping
    return imported("csv", written(folder, text, "later.csv"), mapping=accepted.mapping, today=TODAY)


@pytest.mark.parametrize(
    "write",
    [
        lambda time: local(time - timedelta(hours=7)),
        lambda time: f"{time:%Y-%m-%d %I:%M}",
        lambda time: f"{time:%Y-%m-%d 00:00}",
        lambda time: local(time + timedelta(hours=9)),
    ],
    ids=["in UTC", "without PM", "midnight", "of another zone"],
)
def test_times_far_from_the_hours_of_the_sample_are_refused(write: Callable[[datetime], str], tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match=r"has the time .* on line \d+, and \d+ of its first 30 rows") as refused:
        later(tmp_path, export(write, first=2001))
    assert "11:00 to 21:59" in str(refused.value)
    assert "checks.hours" in str(refused.value)


@pytest.mark.parametrize(("bills", "is_checked"), [(12, True), (5, False)], ids=["a whole day", "a lunch"])
def test_the_hours_of_a_few_bills_are_those_of_a_whole_day(bills: int, is_checked: bool, tmp_path: Path) -> None:
    heading, *rows = export(local, first=1001).splitlines()
    sample = written(tmp_path, "\n".join([heading, *rows[:bills], ""]), "sample.csv")
    accepted = form(FormFiles((sample,)), {}, today=TODAY)
    assert ("hours = [11, 21]" in accepted.mapping) == is_checked


@pytest.mark.parametrize(
    "write",
    [
        local,
        lambda time: local(time - timedelta(hours=2)),
        lambda time: local(time + timedelta(hours=2)),
        lambda time: f"{time - timedelta(hours=7):%Y-%m-%dT%H:%M:%SZ}",
    ],
    ids=["the same hours", "earlier", "later", "in UTC, as each cell says"],
)
def test_usual_times_are_read(write: Callable[[datetime], str], tmp_path: Path) -> None:
    found = later(tmp_path, export(write, first=2001))
    assert (len(found.bills), found.rejected) == (30, [])


@pytest.mark.parametrize(
    ("sample_number", "number"), [("{}", "{}.0"), ("{}", "00{}"), ("00{}", "{}")], ids=["decimal", "zeros", "no zeros"]
)
def test_the_same_bills_under_other_numbers_are_refused(sample_number: str, number: str, tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match="would be stored again under new numbers") as refused:
        later(tmp_path, export(local, first=1001, number=number), sample_number)
    assert number.format(1001) in str(refused.value)


@pytest.mark.parametrize("number", ["{}", "00{}"])
def test_numbers_as_before_are_read(number: str, tmp_path: Path) -> None:
    found = later(tmp_path, export(local, first=2001, number=number), number)
    assert (len(found.bills), found.rejected) == (30, [])


# --- each line twice ----------------------------------------------------------------------


def lines_of(copies: int, bills: int = 6) -> str:
    """Return bills with two lines, each of them so many times below each other."""
    rows = ["Receipt,Date,Item,Amount"]
    for place in range(bills):
        for item, amount in (("Tea", f"{place + 4}0.50"), ("Cake", "30.00")):
            rows += [f"{1001 + place},2026-11-13 1{place}:04,{item},{amount}"] * copies
    return "\n".join([*rows, ""])


def test_lines_that_are_all_there_twice_are_asked_about(tmp_path: Path) -> None:
    sample = written(tmp_path, lines_of(2), "sample.csv")
    files = FormFiles((sample,))
    [question] = form(files, {}, today=TODAY).open
    assert question.text.startswith("All lines of all 6 bills are there twice. Does each of them count?")
    assert [(option.answer, option.net) for option in question.options] == [("all", "1146.00")]
    assert form(files, {"repeated": "all"}, today=TODAY).is_complete
    refused = form(files, {"repeated": "once"}, today=TODAY)
    assert refused.advice == "sample.csv has all its lines twice. Export it again with each line once."


@pytest.mark.parametrize(("copies", "bills"), [(1, 6), (3, 6), (2, 4)])
def test_lines_that_are_not_all_there_twice_are_not_asked_about(copies: int, bills: int, tmp_path: Path) -> None:
    sample = written(tmp_path, lines_of(copies, bills), "sample.csv")
    assert form(FormFiles((sample,)), {}, today=TODAY).is_complete


def test_a_later_file_with_each_line_twice_is_refused(tmp_path: Path) -> None:
    sample = written(tmp_path, lines_of(1), "sample.csv")
    accepted = form(FormFiles((sample,)), {}, today=TODAY).mapping
    with pytest.raises(ImportFailed, match="has each of its first 12 rows twice, as line 3 repeats an earlier one"):
        imported("csv", written(tmp_path, lines_of(2), "later.csv"), mapping=accepted, today=TODAY)
    counted = accepted.replace("[file]", '[file]\nrepeated = "all"')
    found = imported("csv", written(tmp_path, lines_of(2), "later.csv"), mapping=counted, today=TODAY)
    assert len(found.bills) == 6
