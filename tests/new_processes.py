"""New processes for tests, forked from a process that has already imported what they need.

A process that starts from nothing spends most of a second with imports. Each test
process starts its own server for this when a test first needs it.
"""

from functools import cache
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext

# The modules of the functions that tests run in other processes, and the HTTP library of an example client.
IMPORTED = ["client.forked_program", "ingest.loaders", "observe.counting_workers", "ports.other_processes", "requests"]


@cache
def new_processes() -> ForkServerContext:
    """Return the context that starts such processes."""
    context = get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    return context
