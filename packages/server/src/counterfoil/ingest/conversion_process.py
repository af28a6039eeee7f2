"""Starts the processes that convert exports, sends them requests and reads their answers, within limits.

A converter is a program that somebody else may have written, and an export is a file that somebody else has written. So
whatever the process does, the worst that can happen is a sentence that says why its export was not converted.
"""

import atexit
import os
import resource
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from signal import SIGHUP, SIGINT, SIGTERM

import msgspec
from msgspec import Struct

from counterfoil.importer import protocol
from counterfoil.importer.protocol import Answer, ConversionRequest, EndMessage, FailedMessage
from counterfoil.importing.sentences import FormText
from counterfoil.model.messages import Message, MessageError
from counterfoil.model.text import counted

# With -P, a file in the working folder is never taken for a module.
OWN_CONVERTER = (sys.executable, "-P", "-m", "counterfoil.importer")
MIB = 1024 * 1024
# The pipe is read in parts of this size. While there is nothing to read, `on_wait` is called this often.
READ_BYTES = MIB
WAIT_SEC = 0.25
# An order of an API has at most 8 MiB.
MAX_MESSAGE_BYTES = 16 * MIB
# A process that has converted so many exports is replaced, because it may not have freed all memory.
MAX_CONVERSIONS = 1_000
# Only the load handles these signals, and then ends its converters. systemd sends SIGTERM to all processes of a unit.
BLOCKED_SIGNALS = (SIGINT, SIGTERM, SIGHUP)
# The variables of the service have its address, secret and keys.
PRIVATE_VARIABLES = "COUNTERFOIL_"


class ConversionLimits(Struct, frozen=True, kw_only=True):
    """What a conversion may use. The names in `advice` are those of the settings."""

    memory_mib: int = 2048
    seconds: float = 3600
    output_mib: int = 4096
    cells: int = 200_000_000


class ConversionFailed(MessageError):
    """An export cannot be converted, so nothing of it may be loaded. The message says why and what to do.

    `texts` are what the words of a converter were made of, from which a page can show them in another language.
    """

    def __init__(self, message: Message | str, texts: Sequence[FormText] = ()) -> None:
        super().__init__(message)
        self.texts = tuple(texts)


class UnknownExport(ConversionFailed):
    """Nobody has said yet what the columns of the export mean. `headings` are those of the table, if they are known."""

    def __init__(self, text: str, headings: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.headings = tuple(headings)


class UnknownOrder(ConversionFailed):
    """Nothing shows whether the day or the month comes first. `dates` are a few dates of the export."""

    def __init__(self, text: str, dates: Sequence[str]) -> None:
        super().__init__(text)
        self.dates = tuple(dates)


class UnknownBase(ConversionFailed):
    """Nobody has said yet to which membership base the members of the export belong."""


class UnknownZone(ConversionFailed):
    """Nothing says in which time zone the new shops of the export are."""


class DiskFull(ConversionFailed):
    """The disk for temporary files is full. It is not the fault of the export."""


class MemoryFull(ConversionFailed):
    """A conversion takes more memory than it may use."""


class ConversionProcess:
    """A converter. It answers one request after the other."""

    def __init__(self, command: Sequence[str]) -> None:
        self.command = tuple(command)
        self.conversions = 0
        self.is_ready = True
        """Whether the process can answer another request."""
        self._has_more = False
        environment = {name: text for name, text in os.environ.items() if not name.startswith(PRIVATE_VARIABLES)}
        # The process inherits that these signals are blocked, until it ignores them.
        allowed = signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED_SIGNALS)
        try:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=environment
            )
        except OSError as error:
            raise ConversionFailed(
                Message(
                    "converter_start",
                    "cannot start the converter {command}: {strerror}.",
                    command=command[0],
                    strerror=str(error.strerror),
                )
            ) from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, allowed)
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        os.set_blocking(self._stdin.fileno(), False)

    def answers(
        self, request: ConversionRequest, limits: ConversionLimits, on_wait: Callable[[], None]
    ) -> Iterator[Answer]:
        """Send a request, and yield its messages up to `end` or `failed`. Raise `ConversionFailed` if there is none.

        `on_wait` is called often, and may raise an exception to stop.
        """
        self.conversions += 1
        self.is_ready = False
        name = name_of(request)
        self._limit_memory(limits)
        for line in self._lines(protocol.encode(request) + b"\n", name, limits, on_wait):
            try:
                answer = protocol.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                text = Message(
                    "converter_line",
                    "{name} was not loaded: the converter wrote a line that is no message of it ({error}).",
                    name=name,
                    error=str(error),
                )
                raise ConversionFailed(text) from error
            if answer.v != protocol.VERSION:
                raise ConversionFailed(
                    Message(
                        "converter_version",
                        "{name} was not loaded: the converter writes version {v} of messages.",
                        name=name,
                        v=answer.v,
                    )
                )
            if isinstance(answer, FailedMessage):
                self.is_ready = answer.cause != "memory" and not self._has_more
                raise failure(answer, name, limits)
            if isinstance(answer, EndMessage):
                self.is_ready = not self._has_more
                yield answer
                return
            yield answer

    def close(self) -> None:
        """End the process, also if it is still converting."""
        self._process.kill()
        self._process.wait()
        self._stdin.close()
        self._stdout.close()

    def is_running(self) -> bool:
        return self._process.poll() is None

    def _limit_memory(self, limits: ConversionLimits) -> None:
        wanted = limits.memory_mib * MIB
        try:
            _, most = resource.prlimit(self._process.pid, resource.RLIMIT_AS)
            soft = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
            resource.prlimit(self._process.pid, resource.RLIMIT_AS, (soft, most))
            # A dump of its memory would have the names of customers.
            resource.prlimit(self._process.pid, resource.RLIMIT_CORE, (0, 0))
        except ProcessLookupError:
            # It has ended. Reading its answers says why.
            return
        except OSError as error:
            raise ConversionFailed(
                Message(
                    "converter_limit",
                    "cannot limit the memory of the converter: {strerror}.",
                    strerror=str(error.strerror),
                )
            ) from error

    def _lines(
        self, request: bytes, name: str, limits: ConversionLimits, on_wait: Callable[[], None]
    ) -> Iterator[bytes]:
        received = 0
        # The parts of a line that has not ended, and their size. They are joined once, because a line may be long.
        begun: list[bytes] = []
        begun_bytes = 0
        for chunk in self._chunks(request, name, limits, on_wait):
            received += len(chunk)
            if received > limits.output_mib * MIB:
                raise ConversionFailed(
                    Message(
                        "converted_size",
                        "{name} was not loaded: converted, it has more than {output_mib} MiB. Export fewer days at "
                        "once, or raise the setting import_output_mb.",
                        name=name,
                        output_mib=f"{limits.output_mib:,}",
                    )
                )
            *lines, rest = chunk.split(b"\n")
            if lines:
                lines[0] = b"".join((*begun, lines[0]))
                begun.clear()
                begun_bytes = 0
            begun.append(rest)
            begun_bytes += len(rest)
            if begun_bytes > MAX_MESSAGE_BYTES:
                raise ConversionFailed(
                    Message(
                        "converter_line_size",
                        "{name} was not loaded: the converter wrote a line of more than 16 MiB.",
                        name=name,
                    )
                )
            for number, line in enumerate(lines, start=1):
                # What follows the last message would be taken for an answer to the next request.
                self._has_more = number < len(lines) or bool(rest)
                yield line

    def _chunks(
        self, request: bytes, name: str, limits: ConversionLimits, on_wait: Callable[[], None]
    ) -> Iterator[bytes]:
        """Write the request, and yield what the process writes. Raise `ConversionFailed` if it ends or takes too long.

        Only the time in which the process could work counts, and not what the load does with its messages.
        """
        unsent = request
        seconds = 0.0
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdout, selectors.EVENT_READ)
            selector.register(self._stdin, selectors.EVENT_WRITE)
            while True:
                began = time.monotonic()
                ready = {key.fileobj for key, _ in selector.select(WAIT_SEC)}
                seconds += time.monotonic() - began
                if self._stdin in ready:
                    unsent = self._written(unsent)
                    if not unsent:
                        selector.unregister(self._stdin)
                if self._stdout in ready:
                    chunk = self._stdout.read(READ_BYTES)
                    if not chunk:
                        raise self._death(name, limits)
                    yield chunk
                if seconds > limits.seconds:
                    raise ConversionFailed(
                        Message(
                            "conversion_time",
                            "{name} was not loaded: converting it took longer than {time}. Export fewer days at "
                            "once, or raise the setting import_minutes.",
                            name=name,
                            time=_duration(limits.seconds),
                        )
                    )
                on_wait()

    def _written(self, unsent: bytes) -> bytes:
        """Write what fits into the pipe, and return the rest."""
        try:
            return unsent[self._stdin.write(unsent) or 0 :]
        except BlockingIOError:
            return unsent
        except BrokenPipeError:
            # The process has ended. Reading its answers says why.
            return b""

    def _death(self, name: str, limits: ConversionLimits) -> ConversionFailed:
        """Return why a process ended that has not said that it was done."""
        status = self._process.wait()
        if status < 0:
            with suppress(ValueError):
                return ConversionFailed(
                    Message(
                        "converter_killed",
                        "{name} was not loaded: the process that converts it was ended by {signal} before it was done. "
                        "If the memory of the machine was full, export fewer days at once, or lower the setting "
                        "import_memory_mb, which is {memory}.",
                        name=name,
                        signal=signal.Signals(-status).name,
                        memory=f"{limits.memory_mib:,}",
                    )
                )
        return ConversionFailed(
            Message(
                "converter_ended",
                "{name} was not loaded: the process that converts it ended with status {status} before it was done. "
                "Try again, and report it if that does not help.",
                name=name,
                status=str(status),
            )
        )


def failure(failed: FailedMessage, name: str, limits: ConversionLimits) -> Exception:
    """Return the error that a converter reports."""
    match failed.cause:
        case "memory":
            return _memory_full(name, limits.memory_mib)
        case "cells":
            return ConversionFailed(
                Message(
                    "conversion_cells",
                    "{name} was not loaded: it has more than {cells} cells. Export fewer days at once.",
                    name=name,
                    cells=f"{limits.cells:,}",
                )
            )
        case "disk":
            return disk_full(name)
        case "unknown" | "base" | "zone" | "order":
            return _unknown(failed)
        case "package":
            return ModuleNotFoundError(name=failed.text)
        case "error":
            return ConversionFailed(
                Message(
                    "converter_error",
                    "{name} cannot be converted ({text}). Please report it.",
                    name=name,
                    text=failed.text,
                )
            )
    return ConversionFailed(failed.text, failed.texts if isinstance(failed.texts, tuple) else ())


def _memory_full(name: str, allowed_mib: int) -> MemoryFull:
    """Return the error that a conversion takes too much memory, with the limit that it has reached."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    mebibytes = allowed_mib
    limit = Message("limit_of_setting", "the setting import_memory_mb")
    if most != resource.RLIM_INFINITY and most < allowed_mib * MIB:
        mebibytes = most // MIB
        limit = Message("limit_of_process", "the limit of this process (`ulimit -v`)")
    return MemoryFull(
        Message(
            "conversion_memory",
            "{name} was not loaded: converting it takes more than {mebibytes} MiB of memory. Export "
            "fewer days at once, or raise {limit}.",
            name=name,
            mebibytes=f"{mebibytes:,}",
            limit=limit,
        )
    )


def _unknown(failed: FailedMessage) -> ConversionFailed:
    """Return what nobody has said yet."""
    match failed.cause:
        case "base":
            return UnknownBase(failed.text)
        case "zone":
            return UnknownZone(failed.text)
        case "order" if isinstance(failed.dates, tuple):
            return UnknownOrder(failed.text, failed.dates)
    return UnknownExport(failed.text, failed.headings if isinstance(failed.headings, tuple) else ())


def disk_full(name: str) -> DiskFull:
    return DiskFull(
        Message(
            "conversion_disk",
            "{name} cannot be converted, because the disk for temporary files is full. Free up disk "
            "space, or set TMPDIR to another folder.",
            name=name,
        )
    )


def name_of(request: ConversionRequest) -> str:
    """Return how messages name what a request is about."""
    names = [os.path.basename(file.path) for file in request.files]  # noqa: PTH119 - a text, which need not be a path
    if len(names) > 1:
        return f"{names[0]} and {counted(len(names) - 1, 'other file')}"
    return names[0] if names else "the database"


def _duration(seconds: float) -> Message:
    if seconds >= 60:
        return Message("minutes", "{count:minute}", count=int(seconds // 60))
    return Message("seconds_of_limit", "{seconds} seconds", seconds=f"{seconds:g}")


# --- processes that wait for the next request ----------------------------------------

_idle: list[ConversionProcess] = []
_idle_lock = threading.Lock()


def taken(command: Sequence[str]) -> ConversionProcess:
    """Return a process for this command that is idle, or a new one. Give it back with `give_back`, or close it.

    A process is not shared: while a long export is converted, others may be converted beside it.
    """
    with _idle_lock:
        for process in [*_idle]:
            if not process.is_running():
                _idle.remove(process)
                process.close()
            elif process.command == tuple(command):
                _idle.remove(process)
                return process
    return ConversionProcess(command)


def give_back(process: ConversionProcess) -> None:
    """Keep a process for the next request. It ends with this one, because its standard input ends then."""
    with _idle_lock:
        is_kept = process.is_ready and process.conversions < MAX_CONVERSIONS and not _idle
        if is_kept:
            _idle.append(process)
    if not is_kept:
        process.close()


@atexit.register
def _close_idle() -> None:
    with _idle_lock:
        while _idle:
            _idle.pop().close()
