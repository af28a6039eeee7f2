"""Checks of an embedded store and of this machine, each with advice on how to fix a problem."""

import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from counterfoil import bootstrap
from counterfoil.checks.findings import Finding, fail, failed, ok, warn
from counterfoil.domain.calendar import iso_utc
from counterfoil.domain.intake import LatestLoad
from counterfoil.domain.messages import Message, duration
from counterfoil.domain.tokens import MIN_SECRET_BYTES
from counterfoil.machine.addresses import is_free
from counterfoil.machine.files import is_shared, read_regular
from counterfoil.settings import Settings

# "ahead" means that the horizon is ahead of the clock, so it is unknown whether the horizon is moving.
HorizonMotion = Literal["moving", "still", "ahead"]
PortUse = Literal["service", "other", "unknown"]

YEAR_2024_MS = 1_704_067_200_000
CLOCK_BEHIND_MS = 2_000
MOVING_MS = 5_000
QUIET_LOAD_MS, STALLED_LOAD_MS = 15_000, 120_000
LOW_DISK_BYTES, CRITICAL_DISK_BYTES = 1 << 30, 64 << 20
WRITE_TEST_BYTES = 1 << 16

# --- the store -----------------------------------------------------------------

STORE_MISSING = warn(
    "store",
    "store_missing",
    "There is no store at {store} yet.",
    "Run `counterfoil init` to create it. If it should already exist, check --store or COUNTERFOIL_STORE.",
)
STORE_UNFINISHED = fail(
    "store",
    "store_unfinished",
    "The store in {store} is incomplete, because it could not be created completely.",
    "If the disk is full, free up disk space. Then run `counterfoil init`.",
)
STORE_IS_FILE = fail(
    "store",
    "store_is_file",
    "{store} is a file, but a store must be a folder.",
    "Check --store or COUNTERFOIL_STORE, or move the file.",
)
STORE_OPEN = warn(
    "store",
    "store_open",
    "{store} is accessible to other users of this machine (mode {mode}).",
    "Run `chmod 700 {store}`.",
)
STORE_SHARED = ok("store", "store_shared", "{store} exists and is shared with its group only.")


def absent_store(settings: Settings) -> Finding | None:
    """Return a finding if there is no embedded store, or only a part of one. Such a store needs no other checks."""
    if settings.database:
        return None
    store = str(settings.store)
    if not settings.store.is_dir():
        return STORE_IS_FILE(store=store) if settings.store.is_file() else STORE_MISSING(store=store)
    if bootstrap.store(settings).is_unfinished():
        return STORE_UNFINISHED(store=store)
    return None if bootstrap.store(settings).exists() else STORE_MISSING(store=store)


def store_folder(settings: Settings) -> Iterator[Finding]:
    mode = _mode(settings.store)
    if is_shared(settings.store) and not mode & 0o007:
        yield STORE_SHARED(store=str(settings.store))
    elif mode & 0o077:
        yield STORE_OPEN(store=str(settings.store), mode=f"{mode:04o}")


MOVED_KEEP_SECRET = Message(
    "moved_keep_secret",
    "Set COUNTERFOIL_STORE to the new store. Do not delete this folder yet: it contains the deployment secret "
    "({files}), which the new store needs. Move the secret to a safe place, set COUNTERFOIL_SECRET_FILE to its path, "
    "and run `counterfoil doctor` on the new store. Then delete this folder.",
)
MOVED = Message(
    "moved", "Set COUNTERFOIL_STORE to the new store. Delete this folder once you have verified the new store."
)


def moved_store(settings: Settings, problems: Mapping[str, Message | None]) -> Finding | None:
    """Return a `fail` finding if the store was moved, otherwise None. A moved store needs no other checks."""
    problem = next((problem for problem in problems.values() if problem and problem.code == "store_moved"), None)
    if problem is None:
        return None
    secrets_here = {
        file for file in (settings.secret_file, settings.store / "secret") if _is_inside(file, settings.store)
    }
    advice = MOVED_KEEP_SECRET(files=[str(file) for file in sorted(secrets_here)]) if secrets_here else MOVED
    return failed("store", problem, advice)


def _is_inside(file: Path, folder: Path) -> bool:
    return file.exists() and folder.resolve() in file.resolve().parents


DATABASE_OPEN = warn(
    "", "database_open", "Other users of this machine can open this database.", "Run `chmod 600 {files}`."
)
DATABASE_WELL = ok("", "database_well", "The file is readable and private, and its schema is up to date.")
CHECK_OWNER = Message("check_owner", "Check the file's owner and the disk. If the file is damaged, restore a backup.")
# The problems of a database that only quote SQLite or the operating system. The others say what to do.
UNEXPLAINED = frozenset({"sqlite", "cannot_open"})


def file_modes(settings: Settings, names: Iterable[str]) -> Iterator[Finding]:
    """Check that other users cannot open the databases, which have no other problems."""
    for name in names:
        path = settings.store / f"{name}.sqlite3"
        files = [path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")]
        others = 0o007 if name == "books" and is_shared(path.parent) else 0o077
        open_files = [str(file) for file in files if file.exists() and _mode(file) & others]
        yield DATABASE_OPEN(check=name, files=" ".join(open_files)) if open_files else DATABASE_WELL(check=name)


CANNOT_WRITE = fail(
    "writing",
    "cannot_write",
    "Cannot write to {store}: {reason}.",
    "Free up some disk space, or make the user that runs Counterfoil the owner of the folder.",
)
WRITABLE = ok("writing", "writable", "The folder is writable.")


def write_test(settings: Settings) -> Finding:
    """Check that the store's folder is writable, by writing a temporary file and deleting it."""
    test_file = settings.store / f".doctor-{secrets.token_hex(4)}"
    try:
        with test_file.open("xb") as file:
            file.write(bytes(WRITE_TEST_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return CANNOT_WRITE(store=str(settings.store), reason=str(error.strerror))
    finally:
        test_file.unlink(missing_ok=True)
    return WRITABLE()


# --- the latest load ---------------------------------------------------------------

LOAD_AGAIN = Message(
    "load_again", "Run the same `counterfoil load` again; records that are already loaded are skipped."
)
LOAD_FAILED = warn(
    "load",
    "load_failed",
    "The latest load did not finish: it stopped after {lines:line}, {span} ago.",
    "Correct the cause that its error message named. Then run the same `counterfoil load` again; records that are "
    "already loaded are skipped.",
)
LOAD_STALLED = warn(
    "load", "load_stalled", "The latest load did not finish: it stopped after {lines:line}, {span} ago.", LOAD_AGAIN
)
LOAD_UNKNOWN = warn(
    "load",
    "load_unknown",
    "The latest load has not finished ({lines:line}). It may be running; the clock is too far behind to tell.",
    "If it is no longer running, run the same `counterfoil load` again; records that are already loaded are skipped.",
)
LOAD_WAITING = ok(
    "load",
    "load_waiting",
    "A load is waiting or was stopped: {lines:line} so far, nothing written for {span}.",
    "Run `counterfoil doctor` again in two minutes.",
)
LOAD_RUNNING = ok("load", "load_running", "A load is running: {lines:line} so far.")


def unfinished_load(load: LatestLoad, motion: HorizonMotion) -> Finding:
    if load.is_stopped:
        kind = LOAD_FAILED
    elif motion == "ahead":
        kind = LOAD_UNKNOWN
    elif load.idle_ms > STALLED_LOAD_MS:
        kind = LOAD_STALLED
    else:
        kind = LOAD_WAITING if load.idle_ms > QUIET_LOAD_MS else LOAD_RUNNING
    return kind(lines=load.lines, span=duration(load.idle_ms))


# --- the secret ------------------------------------------------------------------

SECRET_SHORT = fail(
    "secret",
    "secret_short",
    "The secret is shorter than {bytes} bytes.",
    "If the store already has data, restore the original secret. Otherwise, choose a longer one.",
)
SECRET_MISSING = fail(
    "secret",
    "secret_missing",
    "{file} is missing, but the store was built with a secret.",
    "Restore the file, or set COUNTERFOIL_SECRET. Without the secret, member tokens cannot be reproduced.",
)
SECRET_LATER = ok("secret", "secret_later", "{file} does not exist yet. The next load creates it.")
SECRET_UNREADABLE = fail("secret", "secret_unreadable", "Cannot read {file}: {reason}.", "Check its owner and mode.")
SECRET_FILE_SHORT = fail("secret", "secret_file_short", "{file} is shorter than {bytes} bytes.", "Restore the file.")
SECRET_OPEN = warn(
    "secret", "secret_open", "{file} is accessible to other users (mode {mode}).", "Run `chmod 600 {file}`."
)
SECRET_PRIVATE = ok("secret", "secret_private", "{file} exists and is private. Keep a copy in a safe place.")
SECRET_MATCHES = ok("secret", "secret_matches", "The secret is the one that this store was built with.")
SECRET_DIFFERS = fail(
    "secret",
    "secret_differs",
    "The secret is not the one that this store was built with.",
    "Set the correct secret (COUNTERFOIL_SECRET or secret_file). With this one, every member token would change.",
)


def secret(settings: Settings, built_with: str | None) -> Iterator[Finding]:
    """Check that the secret is valid, and that it matches the fingerprint `built_with` if the store has one."""
    if not settings.secret:
        in_file = _secret_file(settings.secret_file, built_with is not None)
        yield in_file
        if in_file.status == "fail" or not settings.secret_file.exists():
            return
    elif len(settings.secret.encode()) < MIN_SECRET_BYTES:
        yield SECRET_SHORT(bytes=MIN_SECRET_BYTES)
        return
    if built_with is not None:
        yield SECRET_MATCHES() if bootstrap.pseudonyms(settings).fingerprint() == built_with else SECRET_DIFFERS()


def _secret_file(file: Path, built: bool) -> Finding:
    if not file.exists():
        return SECRET_MISSING(file=str(file)) if built else SECRET_LATER(file=str(file))
    try:
        size = len(read_regular(file).strip())
    except OSError as error:
        return SECRET_UNREADABLE(file=str(file), reason=str(error.strerror))
    if size < MIN_SECRET_BYTES:
        return SECRET_FILE_SHORT(file=str(file), bytes=MIN_SECRET_BYTES)
    others = 0o037 if is_shared(file.parent) else 0o077
    kind = SECRET_OPEN if _mode(file) & others else SECRET_PRIVATE
    return kind(file=str(file), mode=f"{_mode(file):04o}")


# --- clock, disk, ports ------------------------------------------------------------

CLOCK = ok("clock", "clock", "The clock says {time}.")
CLOCK_PAST = fail(
    "clock",
    "clock_past",
    "The clock says {time}, which is years in the past.",
    "Set the clock, and use NTP to keep it correct.",
)
CLOCK_BEHIND = warn(
    "clock",
    "clock_behind",
    "The clock says {time}, but the horizon is {horizon}: the clock was set back by {span}, or it was ahead earlier.",
    "Check it against NTP. No data is lost: until the clock catches up, new stamps are just above the horizon.",
)
DISK_FREE = ok("disk", "disk_free", "{size} GiB free under {folder}.")
DISK_LOW = warn("disk", "disk_low", "{size} GiB free under {folder}.", "Free up some disk space soon.")
DISK_CRITICAL = fail(
    "disk",
    "disk_critical",
    "{size} GiB free under {folder}.",
    "Free up disk space now: on a full disk, loads fail and every request is refused.",
)


def horizon_motion(horizon: int | None, now: int) -> HorizonMotion:
    if horizon is None or now - horizon >= MOVING_MS:
        return "still"
    return "ahead" if horizon - now > CLOCK_BEHIND_MS else "moving"


def clock(horizon: int | None, now: int) -> Finding:
    if now < YEAR_2024_MS:
        return CLOCK_PAST(time=iso_utc(now))
    if horizon is not None and horizon_motion(horizon, now) == "ahead":
        return CLOCK_BEHIND(time=iso_utc(now), horizon=iso_utc(horizon), span=duration(horizon - now))
    return CLOCK(time=iso_utc(now))


def disk(settings: Settings) -> Finding:
    folder = next(path for path in (settings.store.absolute(), *settings.store.absolute().parents) if path.is_dir())
    free = shutil.disk_usage(folder).free
    kind = DISK_CRITICAL if free < CRITICAL_DISK_BYTES else DISK_LOW if free < LOW_DISK_BYTES else DISK_FREE
    return kind(size=f"{free / (1 << 30):,.1f}", folder=str(folder))


PORT_FREE = ok("port", "port_free", "{address} is free.")
PORT_USED = ok("port", "port_used", "{address} is in use, by this service or by another program.")
PORT_EXPECTED = ok("port", "port_expected", "{address} is in use, as expected while the service is running.")
PORT_TAKEN = warn(
    "port", "port_taken", "{address} is in use by another program.", "Stop that program, or change {setting}."
)


def ports(settings: Settings, use: PortUse) -> Iterator[Finding]:
    """Check whether each port is free. `use` says what uses the ports that are not free."""
    listeners = [("port", "port", settings.host, settings.port)]
    if settings.admin_port:
        listeners.append(("admin", "admin_port", settings.admin_host, settings.admin_port))
    used = {"unknown": PORT_USED, "service": PORT_EXPECTED, "other": PORT_TAKEN}[use]
    for check, setting, host, port in listeners:
        kind = PORT_FREE if is_free(host, port) else used
        yield kind(check=check, address=f"{host}:{port}", setting=setting)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
