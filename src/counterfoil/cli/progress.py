"""Shows a progress bar with the rate and the time left, on a terminal only."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from counterfoil.cli import terminal

if TYPE_CHECKING:
    from rich.progress import Progress


class ProgressDisplay(Protocol):
    def __call__(self, position: int, count: int) -> None:
        """Show that this position has been reached, and that `count` units are done."""


@contextmanager
def progress(
    what: str, total: int | None, unit: str, *, in_bytes: bool = False, is_shown: bool = True
) -> Iterator[ProgressDisplay]:
    """Yield a function that updates a progress bar. It does nothing if standard error is not a terminal.

    With `in_bytes`, positions are in bytes, and the bar shows megabytes and
    megabytes per second. Without a total, a spinner is shown instead of the bar, the
    percentage and the time left.
    """
    if not (is_shown and terminal.is_terminal(sys.stderr)):
        yield lambda position, count: None  # noqa: ARG005 - shows nothing
        return
    with _bar(total is None) as bar:
        task = bar.add_task(what, total=total, counted="", rate="")

        def show(position: int, count: int) -> None:
            elapsed = bar.tasks[0].elapsed or 0
            counted = f"{count:,} {unit}"
            per_second = f"{count / max(elapsed, 1e-9):,.0f}/s"
            if in_bytes:
                read = _megabytes(position) if total is None else f"{_megabytes(position)} of {_megabytes(total)}"
                counted = f"{read}, {counted}"
                per_second = f"{_megabytes(position / max(elapsed, 1e-9))}/s"
            bar.update(task, completed=position, counted=counted, rate=per_second if elapsed > 0.2 else "")

        yield show


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.1f} MB"


def _bar(is_indeterminate: bool) -> "Progress":
    # This import is slow, and commands without a terminal do not need it.
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        Progress,
        SpinnerColumn,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    counted = (TextColumn("{task.fields[counted]}"), TextColumn("[cyan]{task.fields[rate]}"))
    # The bar disappears when the work is done, because the summary follows.
    console = terminal.console(sys.stderr)
    if is_indeterminate:
        return Progress(SpinnerColumn(), TextColumn("{task.description}"), *counted, console=console, transient=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TaskProgressColumn(),
        *counted,
        TextColumn("[dim]left"),
        TimeRemainingColumn(compact=True),
        console=console,
        transient=True,
        expand=True,
    )
