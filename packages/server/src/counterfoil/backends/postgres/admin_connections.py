"""Connections for loaders, commands and the supervisor (psycopg), and the translation of psycopg's errors.

Each component uses a single connection to the primary. While there is no primary, inspections and the operator's reads
use a replica. There are time limits for connecting, for waiting for a lock, and for detecting a broken connection. The
connections that serve requests are in pool.py.
"""

import logging
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.conninfo import make_conninfo
from psycopg.types.numeric import FloatDumper, NumericBinaryLoader, NumericLoader

from counterfoil.backends.postgres.addresses import SESSION_SETTINGS, addresses, server_error
from counterfoil.backends.postgres.schema import IS_DISTRIBUTED, VERSION, mismatch
from counterfoil.model.messages import Message
from counterfoil.ports import StoreMismatch, StoreUnavailable, StoreUnreachable

CONNECT_SEC = 3
# Time limit for background work that must not hang, such as advancing the horizon.
STATEMENT_SEC = 5.0
# A statement waits up to LOCK_SEC for a lock, such as the write lock. A broken connection is noticed within SILENCE_MS.
LOCK_SEC = 60
SILENCE_MS = 15_000

# Every join in the loader starts from a few rows, so hash and merge joins, which scan whole tables, are disabled.
_SETTINGS = SESSION_SETTINGS | {"lock_timeout": f"{LOCK_SEC}s", "enable_hashjoin": "off", "enable_mergejoin": "off"}
# SQLSTATE prefixes of errors of the server: unreachable, stopping, starting, a replica, or too many connections.
_UNREACHABLE = ("08", "57P0", "53300", "25006")

_HAS_MIGRATIONS = "SELECT to_regclass('counterfoil.migrations') IS NOT NULL"

Connection = psycopg.Connection[tuple[Any, ...]]

# psycopg logs the errors that it also raises, so its log is turned off.
logging.getLogger("psycopg").setLevel(logging.CRITICAL)


@cache
def psycopg_form(statement: str) -> bytes:
    """Return a statement with its parameters written as psycopg reads them: `:name` becomes `%(name)s`."""
    # A colon that follows or precedes another one belongs to a cast.
    return re.sub(r"(?<!:):([a-z]\w*)", r"%(\1)s", statement).encode()


@contextmanager
def translated() -> Iterator[None]:
    """Convert errors of psycopg and the operating system to the exceptions defined in ports.py."""
    try:
        yield
    except (psycopg.Error, OSError) as error:
        kind = StoreUnreachable if _is_unreachable(error) else StoreUnavailable
        raise kind(server_error(error)) from error


def _is_unreachable(error: psycopg.Error | OSError) -> bool:
    if isinstance(error, psycopg.Error) and error.sqlstate is not None:
        return error.sqlstate.startswith(_UNREACHABLE)
    # An OperationalError without an SQLSTATE did not come from the server: the connection itself has failed.
    return isinstance(error, (psycopg.OperationalError, OSError))


def connect(url: str) -> Connection:
    """Open a connection in autocommit mode. If there are several servers, connect to the primary."""
    options = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
    several = {"target_session_attrs": "read-write"} if addresses(url) else {}
    with translated():
        connection = psycopg.connect(
            make_conninfo(url, **several),
            autocommit=True,
            connect_timeout=CONNECT_SEC,
            options=options,
            keepalives_idle=5,
            keepalives_interval=5,
            keepalives_count=2,
            tcp_user_timeout=SILENCE_MS,
        )
    connection.adapters.register_loader("numeric", _RevisionLoader)
    connection.adapters.register_loader("numeric", _BinaryRevisionLoader)
    connection.adapters.register_dumper(float, _RevisionDumper)
    return connection


# --- revisions ----------------------------------------------------------------------
#
# The type `numeric` keeps all digits of a revision. No other column has it.


class _RevisionLoader(NumericLoader):
    def load(self, data: Buffer) -> float:  # type: ignore[override]
        """Return a revision as it was loaded: an integer if it is a whole number, otherwise a float."""
        kept = super().load(data)
        return int(kept) if kept == kept.to_integral_value() else float(kept)


class _BinaryRevisionLoader(NumericBinaryLoader):
    def load(self, data: Buffer) -> float:  # type: ignore[override]
        """Return a revision as it was loaded: an integer if it is a whole number, otherwise a float."""
        kept = super().load(data)
        return int(kept) if kept == kept.to_integral_value() else float(kept)


class _RevisionDumper(FloatDumper):
    oid = psycopg.adapters.types["numeric"].oid


@contextmanager
def checked_connection(url: str) -> Iterator[Connection]:
    """Yield a connection after checking the schema version. Translate errors, and close the connection at the end."""
    with translated(), closing(connect(url)) as connection:
        check_version(connection)
        yield connection


def run(url: str, statement: str) -> None:
    with translated(), closing(connect(url)) as connection:
        connection.execute(statement.encode())


def check_version(connection: Connection) -> None:
    """Raise StoreMismatch if this version of Counterfoil cannot use the store's schema."""
    with translated():
        there = connection.execute(_HAS_MIGRATIONS).fetchone()
        found = connection.execute(VERSION).fetchone() if there and there[0] else None
    number, oldest = found or (0, 0)
    problem = mismatch(number, oldest)
    if problem:
        raise StoreMismatch(problem)


def check_layout(connection: Connection, *, is_distributed: bool) -> None:
    """Raise StoreMismatch if this version cannot use the schema, or if the tables do not match `is_distributed`."""
    check_version(connection)
    with translated():
        # If the tables are being distributed, this statement waits until that is finished.
        connection.execute("SELECT FROM horizon")
        found = connection.execute(IS_DISTRIBUTED).fetchone()
    if found != (is_distributed,):
        raise StoreMismatch(
            Message(
                "layout_changed",
                "`counterfoil migrate --distribute` has changed the tables since this program started. Restart the "
                "program.",
            )
        )


def _checked(url: str, check: Callable[[Connection], None]) -> Connection:
    """Open a connection and check the store. If the check fails, close the connection and raise."""
    connection = connect(url)
    try:
        check(connection)
    except BaseException:
        connection.close()
        raise
    return connection


class ReconnectingConnection:
    """A connection that is reopened after it breaks. `check` raises StoreMismatch if the store cannot be used."""

    def __init__(self, url: str, check: Callable[[Connection], None] = check_version) -> None:
        self._url, self._check = url, check
        self._connection = _checked(url, check)

    def close(self) -> None:
        self._connection.close()

    def __call__(self) -> Connection:
        if self._connection.closed:
            self._connection = _checked(self._url, self._check)
        return self._connection

    @contextmanager
    def within(self, seconds: float) -> Iterator[Connection]:
        """Yield the connection. Close it if the work takes longer than `seconds`, as the server may never respond."""
        connection = self()
        timer = threading.Timer(seconds, _shut_down, (connection,))
        timer.daemon = True
        timer.start()
        try:
            yield connection
        finally:
            timer.cancel()


def _shut_down(connection: Connection) -> None:
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
        duplicate.shutdown(socket.SHUT_RDWR)


# --- the row that identifies the store ----------------------------------------------


# Prefix of the fingerprint while a copy is filling the store.
FILLING = "filling "

_FINGERPRINT = "SELECT secret_fingerprint FROM deployment"


def row_of(connection: Connection) -> str | None:
    row = connection.execute(_FINGERPRINT).fetchone()
    return str(row[0]) if row else None


def fingerprint_of(connection: Connection) -> str | None:
    """Return the fingerprint of the store's secret, or None for a new store. Raise if a copy into it is unfinished."""
    found = row_of(connection)
    if found and found.startswith(FILLING):
        raise StoreMismatch(
            Message(
                "unfinished_copy",
                "a copy into this store has not been finished: run `counterfoil copy` with --cut-over to complete it.",
            )
        )
    return found
