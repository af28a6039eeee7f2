"""Runs the real command on the test's store in this process. `PYTHON` is the command line for a separate process."""

import asyncio
import json
import os
import pty
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

from click.testing import CliRunner, Result

from counterfoil.backends.sqlite.usage import SqliteUsage
from counterfoil.domain.request_records import RequestRecord
from counterfoil.ports import Clock
from counterfoil.program.clock import SystemClock
from counterfoil.program.main import program

END_OF_INPUT = b"\x04"
PYTHON = (sys.executable, "-m", "counterfoil")

SHOPS = (
    b'{"kind":"shop","id":"sh_1","name":"Riverside","franchiseId":"fr_a","providerId":"mb_a"}',
    b'{"kind":"shop","id":"sh_2","name":"Hillside","franchiseId":"fr_a","providerId":"mb_a"}',
)


class Command:
    """Runs `counterfoil` commands on one store, a folder or the address of a database. `status` None means any."""

    def __init__(self, store: Path | str) -> None:
        self.store = Path(store)
        self._where = str(store)

    def __call__(self, *arguments: object, status: int | None = 0, stdin: bytes | None = None) -> Result:
        return self.bare(*arguments, "--store", self._where, status=status, stdin=stdin)

    def bare(self, *arguments: object, status: int | None = 0, stdin: bytes | None = None) -> Result:
        """Run the command without `--store`."""
        result = CliRunner().invoke(program, [str(argument) for argument in arguments], input=stdin)
        assert status is None or result.exit_code == status, result.output
        assert "Traceback" not in result.output
        return result

    def json(self, *arguments: object, status: int | None = 0, stdin: bytes | None = None) -> Any:
        return json.loads(self(*arguments, "--json", status=status, stdin=stdin).stdout)

    def stored(self) -> tuple[int, Decimal]:
        """Return the number of the bills in the store, and their net as a client would add it up."""
        with closing(sqlite3.connect(self.store / "books.sqlite3")) as books:
            bodies = [json.loads(body, parse_float=Decimal) for (body,) in books.execute("SELECT body FROM bills")]
        return len(bodies), sum((Decimal(body["amounts"]["net"]) for body in bodies), Decimal(0))

    def findings(self, check: str) -> list[dict[str, Any]]:
        """Return what `doctor` finds about one of its subjects."""
        return [found for found in self.json("doctor", status=None)["checks"] if found["check"] == check]


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Let every write beyond this size fail, as on a full disk, but with the error "File too large"."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def on_terminal(
    *arguments: object, columns: int = 80, typed: bytes = b"", stdin: IO[bytes] | None = None, **variables: str
) -> str:
    """Run the command on its own terminal; return its output. `typed` is input that was typed in advance.

    Whoever asks for more gets the end of the input, as if Ctrl-D had been typed.
    """
    mine, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "40"} | variables
    os.write(mine, typed + END_OF_INPUT if typed else typed)
    process = subprocess.Popen(
        [*PYTHON, *map(str, arguments)], stdin=stdin or theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # On Linux, reading fails once the other end is closed.
        while piece := os.read(mine, 65_536):
            shown += piece
    process.wait()
    os.close(mine)
    return shown.decode()


def run_sql(store: Path, name: str, statement: str) -> Any:
    """Run a statement on a file of the store that no command would run; return the first value of its result."""
    with closing(sqlite3.connect(store / f"{name}.sqlite3", isolation_level=None)) as connection:
        found = connection.execute(statement).fetchone()
        return found[0] if found else None


def on_meter(store: Path, act: Callable[[SqliteUsage], Awaitable[None]], clock: Clock | None = None) -> None:
    """Open the meter and the request records of a store as a worker does, and do something with them."""

    async def run(usage: SqliteUsage) -> None:
        await act(usage)

    with closing(SqliteUsage(store, clock or SystemClock())) as usage:
        asyncio.run(run(usage))


def request_record(key_id: str, request_id: str = "r-1", age_ms: int = 0, **fields: Any) -> RequestRecord:
    values: dict[str, Any] = {"route": "transactions", "status": 200, "error": None, "took_us": 1_500}
    at = SystemClock().now_ms() - age_ms
    return RequestRecord(**{"at": at, "key_id": key_id, "request_id": request_id, **values, **fields})


def record_requests(store: Path, *records: RequestRecord) -> None:
    async def note(usage: SqliteUsage) -> None:
        for record in records:
            usage.note(record)

    on_meter(store, note)
