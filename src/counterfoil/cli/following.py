"""A pull as it goes on, on a terminal only: what is read, how fast, what is left of the day and of the work."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from counterfoil.cli.terminal import on_terminal
from counterfoil.client.pages import Tally


@contextmanager
def following() -> Iterator[Callable[[Tally], None]]:
    """Shows a tally whenever it is called with one; nothing at all when nobody looks."""
    if not on_terminal(sys.stderr):
        yield lambda _: None
        return
    # Only here: drawing takes as long to import as all the rest.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    shown = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("[cyan]{task.fields[speed]}"),
        TextColumn("[dim]{task.fields[allowance]}"),
        TimeRemainingColumn(compact=True),
        console=Console(file=sys.stderr),
        transient=True,
        expand=True,
    )
    with shown:
        task = shown.add_task("connecting", total=None, speed="", allowance="")

        def show(tally: Tally) -> None:
            elapsed = shown.tasks[0].elapsed or 0.0
            shown.update(
                task,
                description=tally.reading,
                total=None if tally.part is None else 1.0,
                completed=tally.part or 0.0,
                speed=_speed(tally, elapsed),
                allowance="" if tally.remaining is None else f"{tally.remaining:,} requests left today",
            )

        yield show


def _speed(tally: Tally, elapsed: float) -> str:
    count = tally.bills_read + tally.members_read
    return f"{tally.bills_read:,} bills  {count / elapsed:,.0f}/s" if elapsed > 0.2 else f"{tally.bills_read:,} bills"
