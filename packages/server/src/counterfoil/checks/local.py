"""Checks of the store, its servers and meter, and of this machine, each with advice on how to fix a problem."""

import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC
from pathlib import Path
from typing import Literal

from msgspec import MsgspecError, Struct, field, json

from counterfoil import bootstrap
from counterfoil.checks.findings import Finding, FindingKind, Status, failed
from counterfoil.checks.running import horizon_motion
from counterfoil.domain.tokens import MIN_SECRET_BYTES
from counterfoil.machine.addresses import is_free
from counterfoil.machine.files import is_shared, read_regular
from counterfoil.model.calendar import from_ms
from counterfoil.model.messages import Message, duration
from counterfoil.settings import Settings
from counterfoil.unknown_variables import unknown_variables

PortUse = Literal["service", "other", "unknown"]


YEAR_2024_MS = 1_704_067_200_000

LOW_DISK_BYTES, CRITICAL_DISK_BYTES = 1 << 30, 64 << 20

WRITE_TEST_BYTES = 1 << 16

VARIABLE_MISSPELLED = FindingKind(
    code="variable_misspelled",
    check="settings",
    status="warn",
    text="The variable {name} has no effect, because no setting has this name.",
    advice="Did you mean {meant}?",
)
VARIABLE_UNKNOWN = FindingKind(
    code="variable_unknown",
    check="settings",
    status="warn",
    text="The variable {name} has no effect, because no setting has this name.",
    advice="Remove it, or correct its name. `counterfoil settings` lists all settings.",
)


def variables(environment: Mapping[str, str], *, with_all: bool) -> Iterator[Finding]:
    """Yield a warning for each misspelled variable, and with `with_all` for each other one that nothing reads."""
    for variable in unknown_variables(environment):
        if variable.meant:
            yield VARIABLE_MISSPELLED(subject=variable.name, name=variable.name, meant=variable.meant)
        elif with_all:
            yield VARIABLE_UNKNOWN(subject=variable.name, name=variable.name)


STORE_IS_FILE = FindingKind(
    code="store_is_file",
    check="store",
    status="fail",
    text="{store} is a file, but a store must be a folder.",
    advice="Check --store or COUNTERFOIL_STORE, or move the file.",
)
STORE_MISSING = FindingKind(
    code="store_missing",
    check="store",
    status="warn",
    text="There is no store at {store} yet.",
    advice="Run `counterfoil init` to create it. If it should already exist, check --store or COUNTERFOIL_STORE.",
)
STORE_UNFINISHED = FindingKind(
    code="store_unfinished",
    check="store",
    status="fail",
    text="The store in {store} is incomplete, because it could not be created completely.",
    advice="If the disk is full, free up disk space. Then run `counterfoil init`.",
)


def absent_store(settings: Settings) -> Finding | None:
    """Return a finding if there is no embedded store, or only a part of one. Such a store needs no other checks."""
    if settings.database:
        return None
    store = str(settings.store)
    if not settings.store.is_dir():
        kind = STORE_IS_FILE if settings.store.is_file() else STORE_MISSING
        return kind(store=store)
    if bootstrap.store(settings).is_unfinished():
        return STORE_UNFINISHED(store=store)
    return None if bootstrap.store(settings).exists() else STORE_MISSING(store=store)


STORE_SHARED = FindingKind(
    code="store_shared", check="store", status="ok", text="{store} exists and is shared with its group only."
)
STORE_OPEN = FindingKind(
    code="store_open",
    check="store",
    status="warn",
    text="{store} is accessible to other users of this machine (mode {mode}).",
    advice="Run `chmod 700 {store}`.",
)


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
    folder = settings.store.resolve()
    places = sorted({settings.secret_file, settings.store / "secret"})
    secrets_here = [str(file) for file in places if file.exists() and folder in file.resolve().parents]
    advice = MOVED_KEEP_SECRET(files=secrets_here) if secrets_here else MOVED
    return failed("store", problem, advice)


# The problems of a database that only quote SQLite or the operating system. The others say what to do.
UNEXPLAINED = frozenset({"sqlite", "cannot_open"})


DATABASE_OPEN = FindingKind(
    code="database_open",
    status="warn",
    text="Other users of this machine can open this database.",
    advice="Run `chmod 600 {files}`.",
)
DATABASE_WELL = FindingKind(
    code="database_well", status="ok", text="The file is readable and private, and its schema is up to date."
)


def file_modes(settings: Settings, names: Iterable[str]) -> Iterator[Finding]:
    """Check that other users cannot open the databases, which have no other problems."""
    for name in names:
        path = settings.store / f"{name}.sqlite3"
        files = [path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")]
        others = 0o007 if name == "books" and is_shared(path.parent) else 0o077
        open_files = [str(file) for file in files if file.exists() and _mode(file) & others]
        kind = DATABASE_OPEN if open_files else DATABASE_WELL
        yield kind(check=name, files=" ".join(open_files))


CANNOT_WRITE = FindingKind(
    code="cannot_write",
    check="writing",
    status="fail",
    text="Cannot write to {store}: {reason}.",
    advice="Free up some disk space, or make the user that runs Counterfoil the owner of the folder.",
)
WRITABLE = FindingKind(code="writable", check="writing", status="ok", text="The folder is writable.")


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


SECRET_SHORT = FindingKind(
    code="secret_short",
    check="secret",
    status="fail",
    text="The secret is shorter than {bytes} bytes.",
    advice="If the store already has data, restore the original secret. Otherwise, choose a longer one.",
)
SECRET_MATCHES = FindingKind(
    code="secret_matches", check="secret", status="ok", text="The secret is the one that this store was built with."
)
SECRET_DIFFERS = FindingKind(
    code="secret_differs",
    check="secret",
    status="fail",
    text="The secret is not the one that this store was built with.",
    advice="Set the correct secret (COUNTERFOIL_SECRET or secret_file). With this one, every member token would "
    "change.",
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
        is_same = bootstrap.pseudonyms(settings).fingerprint() == built_with
        yield SECRET_MATCHES() if is_same else SECRET_DIFFERS()


SECRET_MISSING = FindingKind(
    code="secret_missing",
    check="secret",
    status="fail",
    text="{file} is missing, but the store was built with a secret.",
    advice="Restore the file, or set COUNTERFOIL_SECRET. Without the secret, member tokens cannot be reproduced.",
)
SECRET_LATER = FindingKind(
    code="secret_later", check="secret", status="ok", text="{file} does not exist yet. The next load creates it."
)
SECRET_UNREADABLE = FindingKind(
    code="secret_unreadable",
    check="secret",
    status="fail",
    text="Cannot read {file}: {reason}.",
    advice="Check its owner and mode.",
)
SECRET_FILE_SHORT = FindingKind(
    code="secret_file_short",
    check="secret",
    status="fail",
    text="{file} is shorter than {bytes} bytes.",
    advice="Restore the file.",
)
SECRET_OPEN = FindingKind(
    code="secret_open",
    check="secret",
    status="warn",
    text="{file} is accessible to other users (mode {mode}).",
    advice="Run `chmod 600 {file}`.",
)
SECRET_PRIVATE = FindingKind(
    code="secret_private",
    check="secret",
    status="ok",
    text="{file} exists and is private. Keep a copy in a safe place.",
)


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


CLOCK_PAST = FindingKind(
    code="clock_past",
    check="clock",
    status="fail",
    text="The clock says {time}, which is years in the past.",
    advice="Set the clock, and use NTP to keep it correct.",
)
CLOCK_BEHIND = FindingKind(
    code="clock_behind",
    check="clock",
    status="warn",
    text="The clock says {time}, but the horizon is {horizon}: the clock was set back by {span}, or it was ahead "
    "earlier.",
    advice="Check it against NTP. No data is lost: until the clock catches up, new stamps are just above the horizon.",
)
CLOCK = FindingKind(code="clock", check="clock", status="ok", text="The clock says {time}.")


def clock(horizon: int | None, now: int) -> Finding:
    time = from_ms(now, UTC)
    if now < YEAR_2024_MS:
        return CLOCK_PAST(time=time)
    if horizon is not None and horizon_motion(horizon, now) == "ahead":
        return CLOCK_BEHIND(time=time, horizon=from_ms(horizon, UTC), span=duration(horizon - now))
    return CLOCK(time=time)


DISK_CRITICAL = FindingKind(
    code="disk_critical",
    check="disk",
    status="fail",
    text="{size} GiB free under {folder}.",
    advice="Free up disk space now: on a full disk, loads fail and every request is refused.",
)
DISK_LOW = FindingKind(
    code="disk_low",
    check="disk",
    status="warn",
    text="{size} GiB free under {folder}.",
    advice="Free up some disk space soon.",
)
DISK_FREE = FindingKind(code="disk_free", check="disk", status="ok", text="{size} GiB free under {folder}.")


def disk(settings: Settings) -> Finding:
    store = settings.store.absolute()
    folder = next(path for path in (store, *store.parents) if path.is_dir())
    free = shutil.disk_usage(folder).free
    kind = DISK_FREE
    if free < CRITICAL_DISK_BYTES:
        kind = DISK_CRITICAL
    elif free < LOW_DISK_BYTES:
        kind = DISK_LOW
    return kind(size=f"{free / (1 << 30):,.1f}", folder=str(folder))


PORT_USED = FindingKind(
    code="port_used", check="port", status="ok", text="{address} is in use, by this service or by another program."
)
PORT_EXPECTED = FindingKind(
    code="port_expected",
    check="port",
    status="ok",
    text="{address} is in use, as expected while the service is running.",
)
PORT_TAKEN = FindingKind(
    code="port_taken",
    check="port",
    status="warn",
    text="{address} is in use by another program.",
    advice="Stop that program, or change {setting}.",
)
PORT_FREE = FindingKind(code="port_free", check="port", status="ok", text="{address} is free.")


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


NOTICES = "notices.json"

NOTIFY_FAILING = FindingKind(
    code="notify_failing",
    check="notices",
    status="warn",
    text="Notifications have not been accepted for {span}.",
    advice="Check notify_url, notify_header and the receiver. The log of the service says why (`notify_failing`).",
)
HEARTBEAT_FAILING = FindingKind(
    code="heartbeat_failing",
    check="notices",
    status="warn",
    text="Heartbeats have not been accepted for {span}.",
    advice="Check heartbeat_url and the receiver. The log of the service says why (`heartbeat_failing`).",
)
_FAILING = {"notify": NOTIFY_FAILING, "heartbeat": HEARTBEAT_FAILING}


class Known(Struct, frozen=True):
    """A problem that the operator was told about. `ids` are the items, shops or keys that it names."""

    check: str
    code: str
    severity: Status
    ids: Sequence[str]
    text: str
    advice: str


class SentNotices(Struct):
    """What the service remembers in NOTICES: the problems it reported, and since when what it sends is not accepted."""

    problems: dict[str, Known] = field(default_factory=dict)
    failing: dict[str, int] = field(default_factory=dict)


def notices(settings: Settings, now: int) -> Iterator[Finding]:
    """Yield a warning if what the service sends is not accepted."""
    with suppress(OSError, MsgspecError):
        found = json.decode((settings.store / NOTICES).read_bytes(), type=SentNotices)
        for what, since in found.failing.items():
            yield _FAILING[what](since=from_ms(since, UTC), span=duration(now - since))
