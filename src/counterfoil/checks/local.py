"""Checks of an embedded store and of this machine, each with advice on how to fix a problem."""

import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from counterfoil import bootstrap
from counterfoil.domain.calendar import iso_utc
from counterfoil.domain.counted import counted
from counterfoil.domain.load_progress import LatestLoad
from counterfoil.domain.tokens import MIN_SECRET_BYTES
from counterfoil.machine.addresses import is_free
from counterfoil.settings import Settings

Status = Literal["ok", "warn", "fail"]
# "ahead" means that the horizon is ahead of the clock, so it is unknown whether the horizon is moving.
HorizonMotion = Literal["moving", "still", "ahead"]
PortUse = Literal["service", "other", "unknown"]

YEAR_2024_MS = 1_704_067_200_000
CLOCK_BEHIND_MS = 2_000
MOVING_MS = 5_000
QUIET_LOAD_MS, STALLED_LOAD_MS = 15_000, 120_000
LOW_DISK_BYTES, CRITICAL_DISK_BYTES = 1 << 30, 64 << 20
WRITE_TEST_BYTES = 1 << 16


class Finding(Struct, frozen=True):
    check: str
    status: Status
    message: str = field(name="says")
    advice: str = ""


# --- the store -----------------------------------------------------------------


def missing_store(settings: Settings) -> Finding:
    return Finding(
        "store",
        "warn",
        f"There is no store at {settings.store} yet.",
        "Run `counterfoil init` to create it. If it should already exist, check --store or COUNTERFOIL_STORE.",
    )


def unfinished_store(settings: Settings) -> Finding:
    return Finding(
        "store",
        "fail",
        f"The store in {settings.store} is incomplete, because it could not be created completely.",
        "If the disk is full, free up disk space. Then run `counterfoil init`.",
    )


def store_that_is_a_file(settings: Settings) -> Finding:
    return Finding(
        "store",
        "fail",
        f"{settings.store} is a file, but a store must be a folder.",
        "Check --store or COUNTERFOIL_STORE, or move the file.",
    )


def store_folder(settings: Settings) -> Finding:
    mode = _mode(settings.store)
    if mode & 0o077:
        return Finding(
            "store",
            "warn",
            f"{settings.store} is accessible to other users of this machine (mode {mode:04o}).",
            f"Run `chmod 700 {settings.store}`.",
        )
    return Finding("store", "ok", f"{settings.store} exists and is private.")


def moved_store(settings: Settings, problems: Mapping[str, str | None]) -> Finding | None:
    """Return a `fail` finding if the store was moved, otherwise None. A moved store needs no other checks."""
    problem = next((problem for problem in problems.values() if problem and "was moved to" in problem), None)
    if problem is None:
        return None
    secrets_here = {
        file for file in (settings.secret_file, settings.store / "secret") if _is_inside(file, settings.store)
    }
    if secrets_here:
        named = " and ".join(str(file) for file in sorted(secrets_here))
        advice = (
            "Set COUNTERFOIL_STORE to the new store. Do not delete this folder yet: it contains the deployment secret "
            f"({named}), which the new store needs. Move the secret to a safe place, set COUNTERFOIL_SECRET_FILE to "
            "its path, and run `counterfoil doctor` on the new store. Then delete this folder."
        )
    else:
        advice = "Set COUNTERFOIL_STORE to the new store. Delete this folder once you have verified the new store."
    return Finding("store", "fail", f"{problem[0].upper()}{problem[1:]}.", advice)


def _is_inside(file: Path, folder: Path) -> bool:
    return file.exists() and folder.resolve() in file.resolve().parents


def databases(settings: Settings, problems: Mapping[str, str | None]) -> Iterator[Finding]:
    lost = bootstrap.lost_files(settings)
    for name, problem in problems.items():
        path = settings.store / f"{name}.sqlite3"
        if not path.exists() and name != "store" and name not in lost:
            yield Finding(name, "ok", "The file does not exist yet. The next load creates it.")
        elif problem is not None:
            yield Finding(name, "fail", f"{problem.rstrip('.')}.", _database_advice(problem))
        else:
            yield _file_modes(name, path)


def _database_advice(problem: str) -> str:
    """Return advice for a database problem, or an empty string if the problem already includes advice."""
    return (
        ""
        if "schema" in problem or "restore" in problem
        else "Check the file's owner and the disk. If the file is damaged, restore a backup."
    )


def _file_modes(name: str, path: Path) -> Finding:
    files = [path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")]
    open_files = [file for file in files if file.exists() and _mode(file) & 0o077]
    if open_files:
        listed = " ".join(map(str, open_files))
        return Finding(
            name, "warn", "Other users of this machine can open this database.", f"Run `chmod 600 {listed}`."
        )
    return Finding(name, "ok", "The file is readable and private, and its schema is up to date.")


def write_test(settings: Settings) -> Finding:
    """Check that the store's folder is writable, by writing a temporary file and deleting it."""
    test_file = settings.store / f".doctor-{secrets.token_hex(4)}"
    try:
        with test_file.open("xb") as file:
            file.write(bytes(WRITE_TEST_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return Finding(
            "writing",
            "fail",
            f"Cannot write to {settings.store}: {error.strerror}.",
            "Free up some disk space, or make the user that runs Counterfoil the owner of the folder.",
        )
    finally:
        test_file.unlink(missing_ok=True)
    return Finding("writing", "ok", "The folder is writable.")


def latest_load(load: LatestLoad | None, motion: HorizonMotion) -> Iterator[Finding]:
    if load is None:
        return
    retry_advice = "Run the same `counterfoil load` again; records that are already loaded are skipped."
    lines, age = counted(load.lines, "line"), format_duration(load.idle_ms)
    stopped = f"The latest load did not finish: it stopped after {lines}, {age} ago."
    if load.finished:
        yield Finding("load", "ok", f"The latest load finished ({lines}).")
    elif load.is_stopped:
        yield Finding(
            "load",
            "warn",
            stopped,
            "Correct the cause that its error message named. Then run the same `counterfoil load` again; records that "
            "are already loaded are skipped.",
        )
    elif motion == "ahead":
        message = f"The latest load has not finished ({lines}). It may be running; the clock is too far behind to tell."
        yield Finding(
            "load", "warn", message, f"If it is no longer running, {retry_advice[0].lower()}{retry_advice[1:]}"
        )
    elif load.idle_ms > STALLED_LOAD_MS:
        yield Finding("load", "warn", stopped, retry_advice)
    elif load.idle_ms > QUIET_LOAD_MS:
        message = f"A load is waiting or was stopped: {lines} so far, nothing written for {age}."
        yield Finding("load", "ok", message, "Run `counterfoil doctor` again in two minutes.")
    else:
        yield Finding("load", "ok", f"A load is running: {lines} so far.")


# --- the secret ------------------------------------------------------------------


def secret(settings: Settings, built_with: str | None) -> Iterator[Finding]:
    """Check that the secret is valid, and that it matches the fingerprint `built_with` if the store has one."""
    if not settings.secret:
        in_file = _secret_file(settings.secret_file, built_with is not None)
        yield in_file
        if in_file.status == "fail" or not settings.secret_file.exists():
            return
    elif len(settings.secret.encode()) < MIN_SECRET_BYTES:
        yield Finding(
            "secret",
            "fail",
            f"The secret is shorter than {MIN_SECRET_BYTES} bytes.",
            "If the store already has data, restore the original secret. Otherwise, choose a longer one.",
        )
        return
    if built_with is not None:
        yield _secret_match(matches=bootstrap.pseudonyms(settings).fingerprint() == built_with)


def _secret_file(file: Path, built: bool) -> Finding:
    if not file.exists():
        if built:
            return Finding(
                "secret",
                "fail",
                f"{file} is missing, but the store was built with a secret.",
                "Restore the file, or set COUNTERFOIL_SECRET. Without the secret, member tokens cannot be reproduced.",
            )
        return Finding("secret", "ok", f"{file} does not exist yet. The next load creates it.")
    try:
        size = len(file.read_bytes().strip())
    except OSError as error:
        return Finding("secret", "fail", f"Cannot read {file}: {error.strerror}.", "Check its owner and mode.")
    if size < MIN_SECRET_BYTES:
        return Finding("secret", "fail", f"{file} is shorter than {MIN_SECRET_BYTES} bytes.", "Restore the file.")
    if _mode(file) & 0o077:
        return Finding(
            "secret",
            "warn",
            f"{file} is accessible to other users (mode {_mode(file):04o}).",
            f"Run `chmod 600 {file}`.",
        )
    return Finding("secret", "ok", f"{file} exists and is private. Keep a copy in a safe place.")


def _secret_match(*, matches: bool) -> Finding:
    if matches:
        return Finding("secret", "ok", "The secret is the one that this store was built with.")
    return Finding(
        "secret",
        "fail",
        "The secret is not the one that this store was built with.",
        "Set the correct secret (COUNTERFOIL_SECRET or secret_file). With this one, every member token would change.",
    )


# --- clock, disk, ports ------------------------------------------------------------


def horizon_motion(horizon: int | None, now: int) -> HorizonMotion:
    if horizon is None or now - horizon >= MOVING_MS:
        return "still"
    return "ahead" if horizon - now > CLOCK_BEHIND_MS else "moving"


def clock(horizon: int | None, now: int) -> Finding:
    if now < YEAR_2024_MS:
        return Finding(
            "clock",
            "fail",
            f"The clock says {iso_utc(now)}, which is years in the past.",
            "Set the clock, and use NTP to keep it correct.",
        )
    if horizon is not None and horizon_motion(horizon, now) == "ahead":
        return Finding(
            "clock",
            "warn",
            f"The clock says {iso_utc(now)}, but the horizon is {iso_utc(horizon)}: "
            f"the clock was set back by {format_duration(horizon - now)}, or it was ahead earlier.",
            "Check it against NTP. No data is lost: until the clock catches up, new stamps are just above the horizon.",
        )
    return Finding("clock", "ok", f"The clock says {iso_utc(now)}.")


def disk(settings: Settings) -> Finding:
    folder = next(path for path in (settings.store.absolute(), *settings.store.absolute().parents) if path.is_dir())
    free = shutil.disk_usage(folder).free
    message = f"{free / (1 << 30):,.1f} GiB free under {folder}."
    if free < CRITICAL_DISK_BYTES:
        return Finding(
            "disk", "fail", message, "Free up disk space now: on a full disk, loads fail and every request is refused."
        )
    if free < LOW_DISK_BYTES:
        return Finding("disk", "warn", message, "Free up some disk space soon.")
    return Finding("disk", "ok", message)


def horizon(found: int | None, now: int, served: bool) -> Finding:
    """Check whether a service is advancing the horizon. `served` is true if a process is listening on the port."""
    if not found:
        return Finding("service", "ok", "Nothing has been loaded into this store or served from it yet.")
    motion = horizon_motion(found, now)
    if motion == "moving" and served:
        return Finding("service", "ok", "A service is running on this store.")
    if motion == "moving":
        return Finding(
            "service",
            "warn",
            "Nothing is listening on the port. The horizon has just moved: a load has written to the store, or a "
            "service uses another port.",
            "Run `counterfoil serve` to start the service.",
        )
    if motion == "ahead":
        return Finding(
            "service",
            "warn",
            f"The clock is behind the horizon by {format_duration(found - now)}, "
            "so it is unknown whether a service is running; "
            f"{'something' if served else 'nothing'} is listening on the port.",
            "Fix the clock first. A running service answers /ready on its admin listener.",
        )
    age = format_duration(now - found)
    if served:
        return Finding(
            "service",
            "warn",
            f"Something is listening on the port, but the horizon has not moved for {age}.",
            "If it is this store's service, `serverTime` is stuck: check its log and /ready.",
        )
    return Finding(
        "service",
        "warn",
        f"No service is running; the horizon last moved {age} ago.",
        "Run `counterfoil serve` to start the service.",
    )


def is_port_free(settings: Settings) -> bool:
    return is_free(settings.host, settings.port)


def ports(settings: Settings, use: PortUse) -> Iterator[Finding]:
    """Check whether each port is free. `use` says what uses the ports that are not free."""
    listeners = [("port", "port", settings.host, settings.port)]
    if settings.admin_port:
        listeners.append(("admin", "admin_port", settings.admin_host, settings.admin_port))
    for name, setting, host, port in listeners:
        address = f"{host}:{port}"
        if is_free(host, port):
            yield Finding(name, "ok", f"{address} is free.")
        elif use == "unknown":
            yield Finding(name, "ok", f"{address} is in use, by this service or by another program.")
        elif use == "service":
            yield Finding(name, "ok", f"{address} is in use, as expected while the service is running.")
        else:
            yield Finding(
                name, "warn", f"{address} is in use by another program.", f"Stop that program, or change {setting}."
            )


def other_store_on_port(settings: Settings) -> Finding:
    return Finding(
        "admin",
        "warn",
        f"The service at {settings.admin_host}:{settings.admin_port} serves another store.",
        "Check --store and admin_port. Each service on a machine needs its own admin_port.",
    )


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def format_duration(span_ms: int) -> str:
    seconds = max(0, span_ms) // 1000
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return counted(seconds, "second")


def printable(name: str | None) -> str:
    """Replace the control characters in a name, because they could change the terminal's state.

    Return "-" if there is no name.
    """
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name or "-")
