"""New processes for tests, forked from a process that has already imported the modules that they need.

A new interpreter spends most of a second on imports. Each test process starts its own
fork server when a test first needs a new process.
"""

from functools import cache
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext

# The modules of the functions that tests run in other processes, and the HTTP library of an example client.
IMPORTED = [
    "client.forked_program",
    "console.forked_loader",
    "counterfoil.cli.keyless_load",
    "ingest.loaders",
    "observe.counting_workers",
    "ports.other_processes",
    "requests",
]


@cache
def new_processes() -> ForkServerContext:
    """Return the multiprocessing context that forks new processes from the fork server."""
    context = get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    return context
