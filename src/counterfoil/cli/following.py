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
    from counterfoil.cli.glance import Glance  # noqa: PLC0415

    with Glance() as glance:
        yield glance.show
