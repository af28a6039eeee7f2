"""Shows a progress bar with the rate and the time left, on a terminal only."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

from counterfoil.cli import terminal


class ProgressDisplay(Protocol):
    def __call__(self, position: int, count: int) -> None:
        """Show that `position` out of `total` has been reached, and that `count` units are done."""


@contextmanager
def progress(what: str, total: int | None, unit: str) -> Iterator[ProgressDisplay]:
    """Yield a function that updates a progress bar. It does nothing if standard error is not a terminal."""
    if not terminal.is_terminal(sys.stderr):
        yield lambda position, count: None  # noqa: ARG005 - shows nothing
        return
    with _bar(total is None) as bar:
        task = bar.add_task(what, total=total, counted="", rate="")

        def show(position: int, count: int) -> None:
            elapsed = bar.tasks[0].elapsed or 0
            rate = f"{count / elapsed:,.0f}/s" if elapsed > 0.2 else ""
            bar.update(task, completed=position, counted=f"{count:,} {unit}", rate=rate)

        yield show


def _bar(is_indeterminate: bool) -> Progress:
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
