"""Runs a connector as a user would: as a process in its own environment, with a copy in its own folder."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from client.copy_contents import Json, plain
from client.scripted_service import Answer, scripted_service
from counterfoil.client.feed_rows import LISTS_OF_BILL
from counterfoil.client.tables import BILLS, MEMBERS, SHOPS, Column, Kind
from running_service import RunningService

ROOT = Path(__file__).parents[2]
CONNECTORS = ROOT / "connectors"
CLIENT_SOURCES = str(ROOT / "packages" / "client" / "src")
TIMEOUT_SEC = 240
PAGE_SIZE = 40
Identity = tuple[str, str]


class Connector:
    """One connector and its copy. Subclasses define how to start the connector and how to read the copy."""

    name: str
    if_the_key_is_another: str
    """What the connector says to do about a copy that was made with another key."""

    def __init__(self, folder: Path, url: str, key: str) -> None:
        self.folder = folder
        self.url = url
        self.key = key
        # The copy keeps the bills of shops that have left the key's scope. The service no longer returns them.
        self.bills_of_shops_that_left: dict[Identity, Json] = {}
        folder.mkdir()

    def command(self) -> list[str]:
        """Return the command that makes one pass."""
        raise NotImplementedError

    def prepare(self, url: str) -> None:
        """Write the configuration files that the connector needs."""

    def environment(self, url: str) -> dict[str, str]:
        return {"COUNTERFOIL_URL": url, "COUNTERFOIL_KEY": self.key, "COUNTERFOIL_PAGE_SIZE": str(PAGE_SIZE)}

    @property
    def bin(self) -> Path:
        return CONNECTORS / self.name / ".venv" / "bin"

    # --- passes ------------------------------------------------------------------

    def start(self, url: str = "", *options: str) -> "subprocess.Popen[str]":
        url = url or self.url
        self.prepare(url)
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        # Import the sources of this git worktree, even if Counterfoil is installed from another worktree.
        environment = kept | {"PYTHONPATH": CLIENT_SOURCES} | self.environment(url)
        return subprocess.Popen(
            [*self.command(), *options],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def attempt(self, url: str = "", *options: str) -> tuple[int, str]:
        """Make one pass; return the exit status and what the connector printed."""
        process = self.start(url, *options)
        try:
            printed, _ = process.communicate(timeout=TIMEOUT_SEC)
        finally:
            kill(process)
        return process.returncode, printed

    def run(self, url: str = "", *options: str) -> str:
        """Make one pass, which must succeed."""
        status, printed = self.attempt(url, *options)
        assert status == 0, printed[-6000:]
        return printed

    def cpu_seconds_of_a_pass(self) -> float:
        before = os.times()
        self.run()
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    # --- the copy ----------------------------------------------------------------

    def shops(self) -> dict[str, Json]:
        raise NotImplementedError

    def bills(self) -> dict[Identity, Json]:
        raise NotImplementedError

    def members(self) -> dict[Identity, Json]:
        raise NotImplementedError

    def revenue(self, bill_id: str) -> Decimal:
        """Return the revenue of a bill in the view `current_bills`."""
        raise NotImplementedError

    def scope(self, shop_id: str) -> tuple[bool, datetime | None]:
        """Return whether the key can read the bills of a shop and, if not, up to when the copy has its changes."""
        raise NotImplementedError

    def replace_target(self) -> None:
        """Replace the database of the copy by an empty one. Files of the connector outside it stay."""
        raise NotImplementedError

    def lose_bills(self, kept_shops: list[str]) -> None:
        """Delete the rows of all bills, except for those of some shops."""
        raise NotImplementedError

    def query(self, database: Path, statement: str) -> list[Json]:
        """Return rows as dictionaries. Instants are strings, because DuckDB needs another package to convert them."""
        with closing(duckdb.connect(str(database), read_only=True)) as connection:
            columns = connection.execute(f"DESCRIBE {statement}").fetchall()
            names = [f'"{name}"::VARCHAR' if "ZONE" in kind else f'"{name}"' for name, kind, *_ in columns]
            found = connection.execute(f"SELECT {', '.join(names)} FROM ({statement})")
            return [dict(zip((column[0] for column in columns), row, strict=True)) for row in found.fetchall()]

    def scope_in(self, database: Path, table: str, shop_id: str) -> tuple[bool, datetime | None]:
        [row] = self.query(database, f"SELECT in_scope, complete_until FROM {table} WHERE shop_id = '{shop_id}'")
        until = row["complete_until"]
        return row["in_scope"], datetime.fromisoformat(until) if until else None


def kill(process: "subprocess.Popen[str]") -> None:
    """Kill the process and its children with SIGKILL, which cannot be caught."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout:
        process.stdout.close()


# --- objects from flat rows ----------------------------------------------------------


def shop_object(row: Json) -> Json:
    return _object(SHOPS.columns, row) | {"categories": _list(row["categories"])}


def bill_object(row: Json) -> Json:
    bill = _object(BILLS.columns, row)
    for name, path in LISTS_OF_BILL.items():
        target = bill
        for part in path[:-1]:
            target = target[part]
        target[path[-1]] = _list(row[name])
    return bill


def member_object(row: Json) -> Json:
    return _object(MEMBERS.columns, row) | {"coupons": _list(row["coupons"])}


def _list(text: Any) -> Any:
    return plain(json.loads(text, parse_float=Decimal)) if isinstance(text, str) else text


def _object(columns: tuple[Column, ...], row: Json) -> Json:
    record: Json = {}
    for column in columns:
        if column.path:
            target = record
            for part in column.path[:-1]:
                target = target.setdefault(part, {})
            target[column.path[-1]] = _value(column, row[column.name])
    return record


def _value(column: Column, value: Any) -> Any:
    match column.kind:
        case _ if value is None:
            return None
        case Kind.INSTANT:
            moment = datetime.fromisoformat(value) if isinstance(value, str) else value
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return round(moment.timestamp() * 1000)
        case Kind.DAY:
            return value.isoformat() if isinstance(value, date) else value
        case Kind.DECIMAL | Kind.QUANTITY | Kind.INTEGER:
            return Decimal(str(value))
        case Kind.TEXTS:
            return _list(value)
        case _:
            return value


# --- between the requests ------------------------------------------------------------


@contextmanager
def proxy(service: RunningService, happens: Callable[[str], Answer | None]) -> Iterator[str]:
    """Run a proxy that calls `happens` with the path of each request before it forwards the request.

    If `happens` returns a response, the connector receives that response
    instead. Yields the proxy's base URL.
    """

    def answer(path: str, headers: Mapping[str, str]) -> Answer:
        refusal = happens(path)
        if refusal is not None:
            return refusal
        sent = {name.lower(): value for name, value in headers.items()}
        received = service.server.client.get(service.url + path, headers={"authorization": sent["authorization"]})
        passed_on = {name: received.headers[name] for name in ("retry-after",) if name in received.headers}
        return received.status_code, {"content-type": "application/json", **passed_on}, received.content

    with scripted_service(answer) as url:
        yield f"{url}{service.settings.prefix}/v1"


def cpu_seconds(group: int) -> float:
    """Return the CPU time that the processes of a process group have used."""
    ticks = 0
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            if entry.name.isdecimal():
                fields = (entry / "stat").read_text("utf-8").rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12]) if int(fields[2]) == group else 0
    return ticks / os.sysconf("SC_CLK_TCK")
