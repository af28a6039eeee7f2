"""A column that is declared once appears in a terminal, on a page, in JSON and in CSV."""

import pytest
from msgspec import Struct

from counterfoil.cli.terminal import print_list
from counterfoil.console.display import list_table
from counterfoil.console.texts import Texts
from counterfoil.views.columns import ListColumn, RowList, console_json, csv_lines, json_row, within


class Till(Struct):
    till_id: str
    opened_at: int | None = None
    bills: int = 0
    notes: list[str] = []


COLUMNS = (
    ListColumn[Till]("tillId", terminal="till", page="shop", console="id"),
    ListColumn[Till]("openedAt", kind="time", terminal="opened", page="time"),
    ListColumn[Till]("bills", kind="number", terminal="bills", page="count"),
    ListColumn[Till]("notes", terminal="notes"),
    ListColumn[Till]("isBusy", lambda till: till.bills > 1_000, csv="busy"),
)
BUSY = Till("t_1", 0, 1_234, ["new", "fast"])


def test_a_column_has_its_name_in_json_and_may_have_another_in_the_console() -> None:
    values = {"openedAt": "1970-01-01T00:00:00.000Z", "bills": 1_234, "notes": ["new", "fast"], "isBusy": True}
    assert json_row(COLUMNS, BUSY) == {"tillId": "t_1", **values}
    assert console_json(COLUMNS, BUSY) == {"id": "t_1", **values}


def test_a_column_has_a_heading_in_csv_that_follows_from_its_name() -> None:
    assert csv_lines(COLUMNS, [BUSY, Till("t_2")]) == [
        ["till_id", "opened_utc", "bills", "notes", "busy"],
        ["t_1", "1970-01-01T00:00:00.000Z", 1_234, "new fast", "yes"],
        ["t_2", "", 0, "", "no"],
    ]


def test_a_column_is_printed_with_its_heading(capsys: pytest.CaptureFixture[str]) -> None:
    print_list(COLUMNS, [BUSY, Till("t_2")], ("bills",))
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split() == ["bills", "till", "opened", "notes"]
    assert [row.split() for row in rows] == [
        ["1,234", "t_1", "1970-01-01", "07:00:00", "+07", "new", "fast"],
        ["0", "t_2", "-", "-"],
    ]


@pytest.mark.parametrize(("language", "heading"), [("en", "Shop"), ("th", "ร้าน")])
def test_a_column_is_drawn_with_its_heading_in_the_operators_language(language: str, heading: str) -> None:
    t = Texts("th" if language == "th" else "en")
    page = str(list_table(t, "Tills", RowList(COLUMNS, [BUSY]), {"count": lambda till: f"{till.bills} bills"}))
    assert f">{heading}</th>" in page
    assert ">t_1</th>" in page
    assert "1234 bills" in page
    assert "notes" not in page


def test_the_columns_of_a_part_show_it_in_a_larger_row(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(BUSY, "elsewhere")]
    columns: list[ListColumn[tuple[Till, str]]] = within(COLUMNS, lambda row: row[0])
    assert json_row(columns, rows[0]) == json_row(COLUMNS, BUSY)
    print_list(columns, rows)
    assert "1,234" in capsys.readouterr().out
