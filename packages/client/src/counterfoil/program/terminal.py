"""Prints results. These functions escape control characters, which names and messages from elsewhere may contain."""

import json as ascii_json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from counterfoil.model.text import printable
from counterfoil.program.process import wants_colour

if TYPE_CHECKING:
    from rich.console import Console

    from counterfoil.program.columns import ListColumn

Row = TypeVar("Row")
COLUMN_GAP = "  "
BLOCK_INDENT = 4
# A text in a narrow table is not cut below this width.
MIN_CELL = 8
_TIME = re.compile(r"(?P<minute>\d{4}-\d\d-\d\d \d\d:\d\d)(?::\d\d)? (?P<zone>\S+)")
# `style` writes this for the start of an escape sequence, and `echo` replaces it. It is random, so no text contains it.
_STYLE_MARK = f"{{{os.urandom(8).hex()}}}"
_SEQUENCE_START = "\x1b["
_STYLE = re.compile(re.escape(_STYLE_MARK) + "[0-9;]*m")


def display_width(text: str) -> int:
    from rich.cells import cell_len  # noqa: PLC0415 - a command that prints a document does not need it

    return cell_len(text)


def is_terminal(stream: IO[str] | None) -> bool:
    """Return whether the stream is a terminal. A stream that was closed before the process started is None."""
    return stream is not None and stream.isatty()


def style(text: str, **styles: Any) -> str:
    """Return text in a colour or style, for `echo` and `print_fields`. The styles are those of `click.style`."""
    return click.style(text, **styles).replace(_SEQUENCE_START, _STYLE_MARK)


def echo(text: str = "", *, err: bool = False, **styles: Any) -> None:
    """Print one line. Control characters are escaped, including line feeds."""
    line = printable(style(text, **styles) if styles else text)
    click.echo(line.replace(_STYLE_MARK, _SEQUENCE_START), err=err)


def print_wrapped(text: str, hanging: int = 0, *, err: bool = False, **styles: Any) -> None:
    """Print a text. On a terminal, it is wrapped between words, and its other lines are indented by `hanging` cells."""
    styled = style(text, **styles) if styles else text
    stream = sys.stderr if err else sys.stdout
    lines = wrapped(styled, hanging) if is_terminal(stream) else [styled]
    for line in lines:
        echo(line, err=err)


def wrapped(text: str, hanging: int = 0) -> Iterator[str]:
    """Yield the lines of a text for the width of the terminal. A word is never broken, even if it is longer."""
    width = shutil.get_terminal_size().columns
    line, *words = text.split(" ")
    for word in words:
        if line.strip() and display_width(_STYLE.sub("", f"{line} {word}".rstrip())) > width:
            yield line.rstrip()
            line = " " * hanging + word
        else:
            line = f"{line} {word}"
    yield line.rstrip()


def confirm(question: str) -> None:
    click.confirm(printable(question), abort=True, err=True)


def print_document(text: str | bytes) -> None:
    """Print a whole document, such as a schema or a script, unchanged. It must not contain text from elsewhere."""
    click.echo(text, nl=False)


def print_json(value: object) -> None:
    """Print a value as JSON. Messages are printed in English."""
    from msgspec import json, to_builtins  # noqa: PLC0415 - completing a command name must be quick

    try:
        text = json.encode(value, enc_hook=str).decode()
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        # The output cannot encode a character, or a path is not valid Unicode, so use JSON's ASCII escapes.
        text = ascii_json.dumps(to_builtins(value, enc_hook=str), separators=(",", ":"))
    click.echo(text)


def print_note(text: str) -> None:
    """Print a note, which is neither a result nor an error, to standard error."""
    print_message(f"note: {text}")


def print_message(text: str) -> None:
    """Print a message with the name of the program to standard error, in one line."""
    echo(f"counterfoil: {' '.join(text.split())}", err=True)


def print_rows(
    columns: "Sequence[ListColumn[Row]]",
    rows: Sequence[Row],
    as_json: bool,
    *,
    nothing: str,
    first: Sequence[str] = (),
    narrow: Sequence[str] = (),
    below: str = "",
) -> None:
    """Print rows as JSON or as a list. Without rows, print a note."""
    if as_json:
        from counterfoil.program.columns import json_row  # noqa: PLC0415 - not every command prints a list

        print_json([json_row(columns, row) for row in rows])
    elif not rows:
        print_note(nothing)
    else:
        print_list(columns, rows, first, narrow=narrow, below=below)


def print_list(
    columns: "Sequence[ListColumn[Row]]",
    rows: Sequence[Row],
    first: Sequence[str] = (),
    *,
    narrow: Sequence[str] = (),
    below: str = "",
) -> None:
    """Print the columns that a terminal shows, those in `first` first.

    If the terminal is too narrow, the table has only the columns with the headings `narrow`, and the text of the column
    `below` under each row. If that is too wide as well, the last of `narrow` is there, too, such as a long request ID.
    Without `narrow`, or if even that is too wide, each row is a block of lines.
    """
    from counterfoil.program.columns import arranged, plain_text  # noqa: PLC0415 - not every command prints a list

    shown = [column for column in arranged(columns, first) if column.terminal]
    names = [column.terminal for column in shown]

    def texts_of(row: Row) -> list[str]:
        return [printable(plain_text(column, row)) for column in shown]

    cells = [texts_of(row) for row in rows]
    right = [column.kind == "number" for column in shown]
    room = shutil.get_terminal_size().columns if is_terminal(sys.stdout) else sys.maxsize
    heading, *lines = aligned([names, *cells], right)
    if max(map(display_width, (heading, *lines))) > room:
        fits = bool(narrow) and (
            _print_narrow(shown, cells, narrow, below, room)
            or _print_narrow(shown, cells, narrow[:-1], below, room, narrow[-1])
        )
        if not fits:
            _print_blocks(names, cells)
        return
    echo(heading, dim=True)
    for line in lines:
        echo(line)


def _print_blocks(names: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    for title, about, *others in cells:
        print_wrapped(f"{style(title, bold=True)}{COLUMN_GAP}{about}", BLOCK_INDENT)
        parts = [f"{name} {value}" for name, value in zip(names[2:], others, strict=True) if value]
        print_wrapped(" " * BLOCK_INDENT + " · ".join(parts), BLOCK_INDENT, dim=True)


def _print_narrow(
    columns: "Sequence[ListColumn[Row]]",
    cells: Sequence[Sequence[str]],
    narrow: Sequence[str],
    below: str,
    room: int,
    moved: str = "",
) -> bool:
    """Print a table of these columns, and which others there are. Return False if it does not fit.

    Under each row are the text of the column `below`, and the name and the text of the column `moved`.
    """
    names = [column.terminal for column in columns]
    chosen = []
    for name in narrow:
        index = names.index(name)
        if any(row[index] not in ("", "-") for row in cells):
            chosen.append(index)
    kinds = [columns[index].kind for index in chosen]
    chosen_cells = [[row[index] for index in chosen] for row in cells]
    short_cells, zones = _without_zones(chosen_cells, kinds)
    # The first column names the row, so it is never cut.
    texts = [place for place, kind in enumerate(kinds) if kind == "text" and place > 0]
    table = _cut([[names[index] for index in chosen], *short_cells], texts, room)
    heading, *lines = aligned(table, [kind == "number" for kind in kinds])
    if max(map(display_width, (heading, *lines))) > room:
        return False
    echo(heading, dim=True)
    for text, row in zip(lines, cells, strict=True):
        echo(text)
        parts = _parts_below(dict(zip(names, row, strict=True)), moved, below)
        if parts:
            print_wrapped(" " * BLOCK_INDENT + " · ".join(parts), BLOCK_INDENT, dim=True)
    left_out = [name for name in names if name not in (*narrow, below, moved)]
    times = f"Times are {', '.join(sorted(zones))}. " if zones else ""
    print_wrapped(f"{times}A wider terminal also shows {', '.join(left_out)}; --json shows everything.", dim=True)
    return True


def _without_zones(rows: Sequence[Sequence[str]], kinds: Sequence[str]) -> tuple[list[list[str]], set[str]]:
    """Return the rows with times as short as possible, and the time zones that were left out."""
    zones: set[str] = set()
    short_rows = []
    for row in rows:
        short_row = []
        for text, kind in zip(row, kinds, strict=True):
            time = _TIME.fullmatch(text) if kind == "time" else None
            if time:
                zones.add(time["zone"])
                short_row.append(time["minute"])
            else:
                short_row.append(text)
        short_rows.append(short_row)
    return short_rows, zones


def _parts_below(values: Mapping[str, str], moved: str, below: str) -> list[str]:
    parts = []
    if values.get(moved, "") not in ("", "-"):
        parts.append(f"{moved} {values[moved]}")
    if values.get(below, "") not in ("", "-"):
        parts.append(values[below])
    return parts


def _cut(table: Sequence[Sequence[str]], places: Sequence[int], room: int) -> list[list[str]]:
    """Shorten the widest of the columns at these places until the table fits, or none is wider than MIN_CELL."""
    widths = [max(map(display_width, column)) for column in zip(*table, strict=True)]
    while sum(widths) + len(COLUMN_GAP) * (len(widths) - 1) > room:
        widest = max(places, key=lambda place: widths[place], default=None)
        if widest is None or widths[widest] <= MIN_CELL:
            break
        widths[widest] -= 1
    return [[_shortened(cell, width) for cell, width in zip(row, widths, strict=True)] for row in table]


def _shortened(text: str, width: int) -> str:
    """Return a text without its middle if it is wider than this. Names often begin with the same words."""
    if display_width(text) <= width:
        return text
    start, end = len(text), 0
    while display_width(text[:start]) > width // 3:
        start -= 1
    while display_width(text[:start]) + 1 + display_width(text[end:]) > width:
        end += 1
    return f"{text[:start]}…{text[end:]}"


def console(stream: IO[str]) -> "Console":
    """Return rich's console for a stream, without colours and styles if NO_COLOR is set."""
    from rich.console import Console  # noqa: PLC0415

    return Console(file=stream, highlight=False, color_system="auto" if wants_colour() else None)


def aligned(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> Iterator[str]:
    """Yield the lines of a plain table. `right` says which columns are aligned to the right."""
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = []
        for cell, width, align_right in zip(row, widths, right, strict=True):
            padding = " " * (width - display_width(cell))
            padded.append(padding + cell if align_right else cell + padding)
        yield COLUMN_GAP.join(padded).rstrip()


def print_fields(pairs: Sequence[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        print_wrapped(style(name.ljust(width), dim=True) + COLUMN_GAP + value, width + len(COLUMN_GAP))


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


# Shows that a position has been reached, and how many units are done.
ProgressDisplay = Callable[[int, int], None]


@contextmanager
def progress(
    what: str, total: int | None, unit: str, *, in_bytes: bool = False, is_shown: bool = True
) -> Iterator[ProgressDisplay]:
    """Yield a function that updates a progress bar, or a count without a total. `in_bytes` shows megabytes."""
    if not (is_shown and is_terminal(sys.stderr)):
        yield lambda position, count: None  # noqa: ARG005 - shows nothing
        return
    # These imports are slow, and commands without a terminal do not need them.
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    texts = TextColumn("{task.description}"), TextColumn("{task.fields[counted]}")
    columns = (texts[0], BarColumn(), TaskProgressColumn(), texts[1], TimeRemainingColumn(compact=True))
    # The bar disappears when the work is done, because the summary follows.
    with Progress(*(columns if total else texts), console=console(sys.stderr), transient=True) as drawn:
        task = drawn.add_task(what, total=total, counted="")

        def show(position: int, count: int) -> None:
            counted = f"{count:,} {unit}"
            if in_bytes and total is not None:
                counted = f"{_megabytes(position)} of {_megabytes(total)}, {counted}"
            drawn.update(task, completed=position, counted=counted)

        yield show


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.1f} MB"


@contextmanager
def status_line(first: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows a line of text, beginning with `first`, until the work is done."""
    if not is_terminal(sys.stderr):
        yield lambda _line: None
        return
    from rich.text import Text  # noqa: PLC0415 - slow, and not needed without a terminal

    with console(sys.stderr).status(first) as shown:

        def show(line: str) -> None:
            text = Text(printable(line))
            text.truncate(shown.console.width - 2, overflow="ellipsis")
            shown.update(text)

        yield show
