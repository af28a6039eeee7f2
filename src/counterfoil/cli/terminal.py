"""How things look: colours, tables and bars on a terminal, plain lines everywhere else."""

import json as ascii_json
import sys
from collections.abc import Sequence
from typing import IO, NamedTuple

import click
from msgspec import json, to_builtins

FULL = "█"
PARTS = " ▏▎▍▌▋▊▉"
GAP = "  "


class Column(NamedTuple):
    """A column of a table. `whole` is never cut or folded on a narrow terminal."""

    name: str
    style: str = ""
    right: bool = False
    whole: bool = False


def on_terminal(stream: IO[str] | None) -> bool:
    """A stream that was closed from the start is none at all."""
    return stream is not None and stream.isatty()


def print_json(value: object) -> None:
    try:
        text = json.encode(value).decode()
        text.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        # Letters that the output cannot carry, or a path that is no text: JSON can say the same in ASCII.
        text = ascii_json.dumps(to_builtins(value), separators=(",", ":"))
    click.echo(text)


def note(text: str) -> None:
    """A remark that is no result and no error."""
    click.echo(f"counterfoil: note: {text}", err=True)


def table(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> None:
    """A table on standard output: drawn on a terminal, aligned lines in a pipe."""
    cells = [[str(cell) for cell in row] for row in rows]
    if on_terminal(sys.stdout):
        # Only here: drawing takes as long to import as all the rest, and a pipe need not wait for it.
        from counterfoil.cli.drawing import draw_table  # noqa: PLC0415

        draw_table(columns, cells)
    else:
        _plain([[column.name for column in columns], *cells], [column.right for column in columns])


def _plain(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(right))]
    for row in rows:
        fields = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ]
        click.echo(GAP.join(fields).rstrip())


def bar(part: float, width: int) -> str:
    """A bar that fills `part` of the width, to an eighth of a character."""
    whole, eighths = divmod(round(max(0.0, min(1.0, part)) * width * 8), 8)
    if whole == 0 and eighths == 0 and part > 0:
        eighths = 1
    return (FULL * whole + (PARTS[eighths] if eighths else "")).ljust(width)


def fields(pairs: Sequence[tuple[str, str]]) -> None:
    """Names and values, one pair a line."""
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        click.echo(click.style(name.ljust(width), dim=True) + GAP + value)
