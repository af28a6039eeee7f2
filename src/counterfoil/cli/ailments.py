"""What may be wrong with an installation: a function a check, each with its advice."""

import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

from counterfoil import bootstrap
from counterfoil.addresses import is_free
from counterfoil.domain.calendar import iso_utc
from counterfoil.domain.tokens import MIN_SECRET_BYTES
from counterfoil.ports import StoreMismatch, StoreUnavailable
from counterfoil.settings import Settings

Status = Literal["ok", "warn", "fail"]
# What the horizon says of a service: it moves, it stands still, or the clock is behind it and it says nothing.
Pulse = Literal["moving", "still", "ahead"]

YEAR_2024_MS = 1_704_067_200_000
AHEAD_MS = 2_000
TICKING_MS = 5_000
QUIET_LOAD_MS, STALLED_LOAD_MS = 15_000, 120_000
LITTLE_DISK, TOO_LITTLE_DISK = 1 << 30, 64 << 20
WRITE_TEST_BYTES = 1 << 16


class Finding(Struct, frozen=True):
    check: str
    status: Status
    says: str
    advice: str = ""


class LoadSeen(Protocol):
    """The latest load, as far as it is known from outside."""

    @property
    def lines(self) -> int: ...
    @property
    def finished(self) -> bool: ...
    @property
    def idle_ms(self) -> int: ...


# --- the store -----------------------------------------------------------------


def missing_store(settings: Settings) -> Finding:
    return Finding(
        "store",
        "warn",
        f"There is no store at {settings.store} yet.",
        "`counterfoil load` makes one; if it should be there, check --store or COUNTERFOIL_STORE.",
    )


def store_that_is_a_file(settings: Settings) -> Finding:
    return Finding(
        "store",
        "fail",
        f"{settings.store} is a file, and a store is a folder.",
        "Check --store or COUNTERFOIL_STORE, or move the file away.",
    )


def store_folder(settings: Settings) -> Finding:
    mode = _mode(settings.store)
    if mode & 0o077:
        return Finding(
            "store",
            "warn",
            f"{settings.store} is open to other users of this machine (mode {mode:04o}).",
            f"chmod 700 {settings.store}",
        )
    return Finding("store", "ok", f"{settings.store} is there and private.")


def moved_store(problems: Mapping[str, str | None]) -> Finding | None:
    """A store that was moved says so in each of its files, and nothing else about it matters any more."""
    said = next((problem for problem in problems.values() if problem and "was moved to" in problem), None)
    if said is None:
        return None
    advice = "Point COUNTERFOIL_STORE there; this folder can go once you are sure of the new store."
    return Finding("store", "fail", f"{said[0].upper()}{said[1:]}.", advice)


def databases(settings: Settings, problems: Mapping[str, str | None]) -> Iterator[Finding]:
    for name, problem in problems.items():
        path = settings.store / f"{name}.sqlite3"
        if not path.exists():
            yield Finding(name, "ok", "Not made yet; it will be on first use.")
        elif problem is not None:
            yield Finding(name, "fail", f"{problem.rstrip('.')}.", _mending(problem))
        else:
            yield _readable(name, path)


def _mending(problem: str) -> str:
    """A mismatch carries its own advice."""
    return "" if "schema" in problem else "Check the file's owner and the disk; if it is damaged, restore a backup."


def _readable(name: str, path: Path) -> Finding:
    files = [path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")]
    open_files = [file for file in files if file.exists() and _mode(file) & 0o077]
    if open_files:
        listed = " ".join(map(str, open_files))
        return Finding(name, "warn", "Other users of this machine can open it.", f"chmod 600 {listed}")
    return Finding(name, "ok", "Readable, schema up to date, private.")


def write_test(settings: Settings) -> Finding:
    """A file written to the disk and removed again; no database is touched."""
    trial = settings.store / f".doctor-{secrets.token_hex(4)}"
    try:
        with trial.open("xb") as file:
            file.write(bytes(WRITE_TEST_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return Finding(
            "writing",
            "fail",
            f"Nothing can be written to {settings.store}: {error.strerror}.",
            "Make room, or give the folder to the user that runs Counterfoil.",
        )
    finally:
        trial.unlink(missing_ok=True)
    return Finding("writing", "ok", "The folder takes what is written to it.")


def latest_load(load: LoadSeen | None, pulse: Pulse) -> Iterator[Finding]:
    if load is None:
        return
    again = "Run the same `counterfoil load` again; what it wrote already does no harm."
    lines, age = f"{load.lines:,} lines", _ago(load.idle_ms)
    if load.finished:
        yield Finding("load", "ok", f"The latest load finished after {lines}.")
    elif pulse == "ahead":
        says = f"The latest load has not finished ({lines}); with the clock behind, whether it runs cannot be told."
        yield Finding("load", "warn", says, f"If it does not run any more: {again[0].lower()}{again[1:]}")
    elif load.idle_ms > STALLED_LOAD_MS:
        says = f"The latest load ended without finishing: it broke off after {lines}, {age} ago."
        yield Finding("load", "warn", says, again)
    elif load.idle_ms > QUIET_LOAD_MS:
        says = f"A load is waiting or was stopped: {lines}, and nothing written for {age}."
        yield Finding("load", "ok", says, "Look again in two minutes.")
    else:
        yield Finding("load", "ok", f"A load is running: {lines} so far.")


# --- the secret ------------------------------------------------------------------


def secret(settings: Settings, built: bool, fits: Callable[[], Finding]) -> Iterator[Finding]:
    """The secret by itself, and whether it fits a store that was built with one."""
    if not settings.secret:
        in_file = _secret_file(settings.secret_file, built)
        yield in_file
        if in_file.status == "fail" or not settings.secret_file.exists():
            return
    elif len(settings.secret.encode()) < MIN_SECRET_BYTES:
        yield Finding("secret", "fail", f"It is shorter than {MIN_SECRET_BYTES} bytes.", "Give the whole secret.")
        return
    if built:
        yield fits()


def _secret_file(file: Path, built: bool) -> Finding:
    if not file.exists():
        if built:
            return Finding(
                "secret",
                "fail",
                f"There is no {file}, and the store was built with a secret.",
                "Put it back, or give it as COUNTERFOIL_SECRET; without it no member token can be made again.",
            )
        return Finding("secret", "ok", f"There is no {file} yet; it is made on first use.")
    try:
        size = len(file.read_bytes().strip())
    except OSError as error:
        return Finding("secret", "fail", f"{file} cannot be read: {error.strerror}.", "Check its owner and mode.")
    if size < MIN_SECRET_BYTES:
        return Finding("secret", "fail", f"{file} holds less than {MIN_SECRET_BYTES} bytes.", "Restore it.")
    if _mode(file) & 0o077:
        return Finding(
            "secret", "warn", f"{file} is open to other users (mode {_mode(file):04o}).", f"chmod 600 {file}"
        )
    return Finding("secret", "ok", f"{file} is there and private. Keep a copy in a safe place.")


def secret_of_the_books(settings: Settings) -> Finding:
    """Only asked when the books are usable, so that opening them for writing changes nothing."""
    try:
        bootstrap.ledger(settings).close()
    except StoreMismatch:
        return secret_found(fits=False)
    except StoreUnavailable as error:
        return Finding("secret", "warn", f"Whether it fits the store cannot be told: {error}.", "Try again.")
    return secret_found(fits=True)


def secret_found(*, fits: bool) -> Finding:
    if fits:
        return Finding("secret", "ok", "It is the one that this store was built with.")
    return Finding(
        "secret",
        "fail",
        "It is not the secret that this store was built with.",
        "Give the right one (COUNTERFOIL_SECRET or secret_file); with this one every member token would change.",
    )


# --- clock, disk, ports ------------------------------------------------------------


def pulse_of(horizon: int | None, now: int) -> Pulse:
    if horizon is None or now - horizon >= TICKING_MS:
        return "still"
    return "ahead" if horizon - now > AHEAD_MS else "moving"


def clock(horizon: int | None, now: int) -> Finding:
    if now < YEAR_2024_MS:
        return Finding("clock", "fail", f"It says {iso_utc(now)}, which is long past.", "Set it; NTP keeps it right.")
    if horizon is not None and pulse_of(horizon, now) == "ahead":
        return Finding(
            "clock",
            "warn",
            f"The data vouches for {iso_utc(horizon)}, and the clock says {iso_utc(now)}: "
            f"it stepped back by {_ago(horizon - now)}, or was ahead before.",
            "Check it against NTP. Nothing is lost: until the clock is past, stamps go on just above the horizon.",
        )
    return Finding("clock", "ok", f"{iso_utc(now)}.")


def disk(settings: Settings) -> Finding:
    folder = next(path for path in (settings.store.absolute(), *settings.store.absolute().parents) if path.is_dir())
    free = shutil.disk_usage(folder).free
    says = f"{free / (1 << 30):,.1f} GiB free under {folder}."
    if free < TOO_LITTLE_DISK:
        return Finding("disk", "fail", says, "Make room now: a full disk stops loading and admits no request.")
    if free < LITTLE_DISK:
        return Finding("disk", "warn", says, "Make room soon.")
    return Finding("disk", "ok", says)


def horizon(found: int | None, now: int, served: bool) -> Finding:
    """Whether a service moves the horizon, and whether that agrees with what listens."""
    if not found:
        return Finding("service", "ok", "Nothing has been loaded or served from this store yet.")
    pulse = pulse_of(found, now)
    if pulse == "moving":
        return Finding("service", "ok", "A service is running on this store, or a load just was.")
    if pulse == "ahead":
        return Finding(
            "service",
            "warn",
            f"The clock is behind the horizon by {_ago(found - now)}, so the horizon does not tell whether a service "
            f"is running; {'something' if served else 'nothing'} listens on the port.",
            "Mend the clock first; a running service answers /ready on its admin listener.",
        )
    age = _ago(now - found)
    if served:
        return Finding(
            "service",
            "warn",
            f"Something listens on the port, but the horizon has not moved for {age}.",
            "If it is this store's service, look at its log and /ready; `serverTime` stands still.",
        )
    return Finding(
        "service", "ok", f"No service is running; the horizon moved {age} ago. `counterfoil serve` starts one."
    )


def is_port_free(settings: Settings) -> bool:
    return is_free(settings.host, settings.port)


def ports(settings: Settings, pulse: Pulse) -> Iterator[Finding]:
    listeners = [("port", settings.host, settings.port)]
    if settings.admin_port:
        listeners.append(("admin", settings.admin_host, settings.admin_port))
    for name, host, port in listeners:
        address = f"{host}:{port}"
        if is_free(host, port):
            yield Finding(name, "ok", f"{address} is free.")
        elif pulse == "ahead":
            yield Finding(name, "ok", f"{address} is in use, by this service or by another program.")
        elif pulse == "moving":
            yield Finding(name, "ok", f"{address} is in use, as it should be while the service runs.")
        else:
            yield Finding(
                name, "warn", f"{address} cannot be used: another program has it.", f"Stop that, or change {name}."
            )


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _ago(span_ms: int) -> str:
    seconds = max(0, span_ms) // 1000
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} seconds"
