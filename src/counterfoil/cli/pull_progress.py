"""Shows the progress of a pull or a comparison on a terminal: current shop or base, rate and remaining quota."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from counterfoil.cli.terminal import is_terminal
from counterfoil.client.pull_state import Tally


@contextmanager
def pull_progress() -> Iterator[Callable[[Tally], None]]:
    """Yield a function that shows a tally. It does nothing if standard error is not a terminal."""
    if not is_terminal(sys.stderr):
        yield lambda _: None
        return
    # Imported here because importing rich takes as long as importing everything else.
    from counterfoil.cli.pull_display import PullDisplay  # noqa: PLC0415

    with PullDisplay() as display:
        yield display.show
