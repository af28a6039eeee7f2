"""Draw tables on a terminal."""

import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from counterfoil.cli.terminal import Column


def console() -> Console:
    return Console(file=sys.stdout, highlight=False)


def draw_table(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> None:
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold dim")
    for column in columns:
        drawn.add_column(
            column.name,
            style=column.style,
            justify="right" if column.right else "left",
            no_wrap=column.whole,
            overflow="fold",
        )
    for row in cells:
        # Wrapped in Text because user input may look like markup.
        drawn.add_row(*(Text(cell) for cell in row))
    console().print(drawn)
