"""Two-line progress display: the stage, rate and remaining quota, and below them what is being read or waited for."""

import math
import sys
import time
from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.text import Text

from counterfoil.cli import terminal
from counterfoil.client.pull_state import Tally
from counterfoil.text import counted, printable

# The rate is not shown before this time has passed, because it would be unreliable.
MIN_RATE_SEC = 0.2
FIELDS = ("speed", "allowance")


class PullDisplay(Progress):
    """Progress display that disappears when the work is done, because the summary follows."""

    def __init__(self, console: Console | None = None) -> None:
        self._tally = Tally()  # This must be set first, because super().__init__() may already render.
        super().__init__(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            *(TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in FIELDS),
            console=console or terminal.console(sys.stderr),
            transient=True,
            expand=True,
        )
        self._task = self.add_task("connecting", total=None, speed="", allowance="")

    def show(self, tally: Tally) -> None:
        self._tally = tally
        elapsed = self.tasks[0].elapsed or 0.0
        self.update(self._task, description=stage(tally), speed=speed(tally, elapsed), allowance=allowance(tally))

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        # The line is wrapped in Text, because a shop ID may look like markup.
        line = waiting(self._tally, time.monotonic()) or self._tally.reading
        yield Text(f"  {printable(line)}", style="dim", no_wrap=True, overflow="ellipsis")


def stage(tally: Tally) -> str:
    return "reading members" if tally.bases else "reading bills"


def waiting(tally: Tally, now: float) -> str:
    """Return what the client is waiting for and for how many more seconds, or an empty string if it is not waiting."""
    if not tally.waiting_for:
        return ""
    return f"waiting for {tally.waiting_for}: next request in {max(0, math.ceil(tally.waiting_until - now))} s"


def speed(tally: Tally, elapsed: float) -> str:
    read = counted(tally.members_read, "member") if tally.members_read else counted(tally.bills_read, "bill")
    rate = (tally.bills_read + tally.members_read) / elapsed if elapsed > MIN_RATE_SEC else 0.0
    return f"{read}, {rate:,.0f}/s" if rate else read


def allowance(tally: Tally) -> str:
    return "" if tally.remaining is None else f"quota left: {tally.remaining:,}"
