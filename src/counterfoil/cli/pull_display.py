"""Two-line progress display of a pull: progress, rate and time left, and below them the current shop or base."""

import sys
from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.text import Text

from counterfoil.cli import terminal
from counterfoil.client.pages import Tally

# No rate is shown for this long after the start, because it would be unreliable.
MIN_RATE_SEC = 0.2
# Once this share of the work is done, the remaining time can be estimated.
MIN_ESTIMATE_SHARE = 0.02
FIELDS = ("speed", "allowance", "left")


class PullDisplay(Progress):
    """Progress display that disappears when the work is done, because the summary follows."""

    def __init__(self, console: Console | None = None) -> None:
        self._reading = ""  # Set this first, because super().__init__() may already draw.
        super().__init__(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            *(TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in FIELDS),
            console=console or terminal.console(sys.stderr),
            transient=True,
            expand=True,
        )
        self._task = self.add_task("connecting", total=None, speed="", allowance="", left="")

    def show(self, tally: Tally) -> None:
        elapsed = self.tasks[0].elapsed or 0.0
        self._reading = tally.reading
        self.update(
            self._task,
            description=stage(tally),
            total=1.0 if tally.share_done else None,
            completed=tally.share_done,
            speed=speed(tally, elapsed),
            allowance=allowance(tally),
            left=time_left(tally, elapsed),
        )

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        # Wrapped in Text because a shop's name may look like markup.
        yield Text(f"  {self._reading}", style="dim", no_wrap=True, overflow="ellipsis")


def stage(tally: Tally) -> str:
    if tally.shops_done < tally.shops:
        return f"shop {tally.shops_done + 1:,} of {tally.shops:,}"
    return "members" if tally.bases else "shops"


def speed(tally: Tally, elapsed: float) -> str:
    counted = f"{tally.members_read:,} members" if tally.members_read else f"{tally.bills_read:,} bills"
    rate = (tally.bills_read + tally.members_read) / elapsed if elapsed > MIN_RATE_SEC else 0.0
    return f"{counted}, {rate:,.0f}/s" if rate else counted


def allowance(tally: Tally) -> str:
    return "" if tally.remaining is None else f"quota left: {tally.remaining:,}"


def time_left(tally: Tally, elapsed: float) -> str:
    """Estimate the time left from the time taken so far."""
    if tally.share_done < MIN_ESTIMATE_SHARE:
        return ""
    seconds = elapsed * (1 - tally.share_done) / tally.share_done
    if seconds < 90:
        return f"{seconds:.0f} s left"
    return f"{seconds / 60:.0f} min left" if seconds < 5400 else f"{seconds / 3600:.1f} h left"
