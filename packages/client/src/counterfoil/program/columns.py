"""Columns of lists. A column is declared once; the terminal, the console's pages, JSON and CSV show it from there.

The renderers for JSON and CSV are here. `program/terminal.py` prints lists, and `console/display.py` draws them.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct

from counterfoil.model.calendar import iso_utc
from counterfoil.model.text import format_usual
from counterfoil.program.times import second

Row = TypeVar("Row")
_CAPITAL = re.compile("(?=[A-Z])")


# The formats for programs, in which every column is, unless it is `without` some of them.
Format = Literal["json", "console", "csv"]
DATA: tuple[Format, ...] = ("json", "console", "csv")


class ListColumn(Struct, Generic[Row], frozen=True):
    """A column of a list.

    `name` is its name in `--json`, in the JSON of a page, in the address of a sorted list, and in templates. Without
    `value`, the column shows the attribute of this name. `text` is what a terminal shows instead of the value. A `time`
    is in milliseconds since 1970, and a `key` is the ID of one.

    People see the column if it has a heading: `terminal`, and on a page `page` (a `translatable` text). Programs get
    it in all formats of DATA but those in `without`, in CSV under its name in snake case. `other_names` has its names
    in the formats in which a few columns have another one.
    """

    name: str
    value: Callable[[Row], Any] | None = None
    kind: Literal["text", "code", "number", "time", "key"] = "text"
    terminal: str = ""
    page: str = ""
    other_names: Mapping[Format, str] = {}
    text: Callable[[Row], str] | None = None
    without: tuple[Format, ...] = ()

    def value_of(self, row: Row) -> Any:
        return self.value(row) if self.value else getattr(row, _attribute(self.name))

    def json_of(self, row: Row) -> Any:
        """Return the value of this column as JSON shows it."""
        value = self.value_of(row)
        return iso_utc(value) if self.kind == "time" and value is not None else value

    @property
    def csv_heading(self) -> str:
        if "csv" in self.other_names:
            return self.other_names["csv"]
        name = _attribute(self.name)
        return f"{name.removesuffix('_at')}_utc" if self.kind == "time" else name


def _attribute(json_name: str) -> str:
    """Return a name such as `shopId` as Python writes it: `shop_id`."""
    return _CAPITAL.sub("_", json_name).lower()


def json_row(columns: Iterable[ListColumn[Row]], row: Row) -> dict[str, Any]:
    return {column.name: column.json_of(row) for column in columns if "json" not in column.without}


def console_json(columns: Iterable[ListColumn[Row]], row: Row) -> dict[str, Any]:
    """Return a row as a page of the console serves it as JSON."""
    shown = [column for column in columns if "console" not in column.without]
    return {column.other_names.get("console", column.name): column.json_of(row) for column in shown}


class RowList(Generic[Row]):
    """Rows with the columns that show them. In the JSON of a page, it is a list of objects."""

    def __init__(self, columns: Sequence[ListColumn[Row]], rows: Sequence[Row]) -> None:
        self.columns = columns
        self.rows = rows


def as_data(value: object) -> object:
    """Return a value of a page as JSON shows it, if it is not one that msgspec knows."""
    return [console_json(value.columns, row) for row in value.rows] if isinstance(value, RowList) else str(value)


def csv_lines(columns: Iterable[ListColumn[Row]], rows: Iterable[Row]) -> list[list[object]]:
    """Return the headings and the rows of an export. A list of values is one cell."""
    exported = [column for column in columns if "csv" not in column.without]
    headings: list[object] = [column.csv_heading for column in exported]
    return [headings, *(_csv_row(exported, row) for row in rows)]


def _csv_row(columns: Iterable[ListColumn[Row]], row: Row) -> list[object]:
    return [_csv_value(column.json_of(row)) for column in columns]


def _csv_value(value: Any) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ".join(value)
    return "" if value is None else value


def plain_text(column: ListColumn[Row], row: Row) -> str:
    """Return what a terminal shows. A missing value is a dash."""
    if column.text:
        return column.text(row)
    if column.kind == "time":
        return second(column.value_of(row))
    value = column.json_of(row)
    if value is None or value in ("", []):
        return "-"
    if isinstance(value, list):
        return " ".join(value)
    return format_usual(value) if column.kind == "number" else str(value)


def arranged(columns: Iterable[ListColumn[Row]], first: Sequence[str]) -> list[ListColumn[Row]]:
    """Return the columns with those that have these names or headings first, and the others after them."""

    def place(column: ListColumn[Row]) -> int:
        names = [name for name in (column.name, column.page, column.terminal) if name in first]
        return first.index(names[0]) if names else len(first)

    return sorted(columns, key=place)
