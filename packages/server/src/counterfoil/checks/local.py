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
from counterfoil.checks.findings import MESSAGES, Finding, Status, failed, finding
from counterfoil.domain.access import KEYS_TRUSTED_SEC
from counterfoil.domain.intake import STALLED_MS, LoadRow
from counterfoil.domain.tokens import MIN_SECRET_BYTES
from counterfoil.machine.addresses import is_free
from counterfoil.machine.files import is_shared, read_regular
from counterfoil.model.calendar import from_ms
from counterfoil.model.messages import Message, duration
from counterfoil.operator_reads import OperatorReads
from counterfoil.ports import Permissions, ServerState, StoreMismatch, StoreUnavailable
from counterfoil.settings import Settings
from counterfoil.unknown_variables import unknown_variables

# "ahead" means that the horizon is ahead of the clock, so it is unknown whether the horizon is moving.
HorizonMotion = Literal["moving", "still", "ahead"]
PortUse = Literal["service", "other", "unknown"]

YEAR_2024_MS = 1_704_067_200_000
CLOCK_BEHIND_MS = 2_000
MOVING_MS = 5_000
QUIET_LOAD_MS = 15_000
LOW_DISK_BYTES, CRITICAL_DISK_BYTES = 1 << 30, 64 << 20
WRITE_TEST_BYTES = 1 << 16


def variables(environment: Mapping[str, str], *, with_all: bool) -> Iterator[Finding]:
    """Yield a warning for each misspelled variable, and with `with_all` for each other one that nothing reads."""
    for variable in unknown_variables(environment):
        if variable.meant:
            yield finding("variable_misspelled", subject=variable.name, name=variable.name, meant=variable.meant)
        elif with_all:
            yield finding("variable_unknown", subject=variable.name, name=variable.name)


def absent_store(settings: Settings) -> Finding | None:
    """Return a finding if there is no embedded store, or only a part of one. Such a store needs no other checks."""
    if settings.database:
        return None
    store = str(settings.store)
    if not settings.store.is_dir():
        return finding("store_is_file" if settings.store.is_file() else "store_missing", store=store)
    if bootstrap.store(settings).is_unfinished():
        return finding("store_unfinished", store=store)
    return None if bootstrap.store(settings).exists() else finding("store_missing", store=store)


def store_folder(settings: Settings) -> Iterator[Finding]:
    mode = _mode(settings.store)
    if is_shared(settings.store) and not mode & 0o007:
        yield finding("store_shared", store=str(settings.store))
    elif mode & 0o077:
        yield finding("store_open", store=str(settings.store), mode=f"{mode:04o}")


def moved_store(settings: Settings, problems: Mapping[str, Message | None]) -> Finding | None:
    """Return a `fail` finding if the store was moved, otherwise None. A moved store needs no other checks."""
    problem = next((problem for problem in problems.values() if problem and problem.code == "store_moved"), None)
    if problem is None:
        return None
    files, folder = {settings.secret_file, settings.store / "secret"}, settings.store.resolve()
    secrets_here = [str(file) for file in sorted(files) if file.exists() and folder in file.resolve().parents]
    advice = MESSAGES["moved_keep_secret" if secrets_here else "moved"]
    return failed("store", problem, advice(files=secrets_here))


# The problems of a database that only quote SQLite or the operating system. The others say what to do.
UNEXPLAINED = frozenset({"sqlite", "cannot_open"})


def file_modes(settings: Settings, names: Iterable[str]) -> Iterator[Finding]:
    """Check that other users cannot open the databases, which have no other problems."""
    for name in names:
        path = settings.store / f"{name}.sqlite3"
        files = [path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")]
        others = 0o007 if name == "books" and is_shared(path.parent) else 0o077
        open_files = [str(file) for file in files if file.exists() and _mode(file) & others]
        yield finding("database_open" if open_files else "database_well", check=name, files=" ".join(open_files))


def write_test(settings: Settings) -> Finding:
    """Check that the store's folder is writable, by writing a temporary file and deleting it."""
    test_file = settings.store / f".doctor-{secrets.token_hex(4)}"
    try:
        with test_file.open("xb") as file:
            file.write(bytes(WRITE_TEST_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return finding("cannot_write", store=str(settings.store), reason=str(error.strerror))
    finally:
        test_file.unlink(missing_ok=True)
    return finding("writable")


def unfinished_load(load: LoadRow, motion: HorizonMotion, now: int) -> Finding:
    idle_ms = load.idle_ms(now)
    if load.is_stopped:
        kind = "load_failed"
    elif motion == "ahead":
        kind = "load_unknown"
    elif idle_ms > STALLED_MS:
        kind = "load_stalled"
    else:
        kind = "load_waiting" if idle_ms > QUIET_LOAD_MS else "load_running"
    return finding(kind, lines=load.lines, span=duration(idle_ms))


def secret(settings: Settings, built_with: str | None) -> Iterator[Finding]:
    """Check that the secret is valid, and that it matches the fingerprint `built_with` if the store has one."""
    if not settings.secret:
        in_file = _secret_file(settings.secret_file, built_with is not None)
        yield in_file
        if in_file.status == "fail" or not settings.secret_file.exists():
            return
    elif len(settings.secret.encode()) < MIN_SECRET_BYTES:
        yield finding("secret_short", bytes=MIN_SECRET_BYTES)
        return
    if built_with is not None:
        is_same = bootstrap.pseudonyms(settings).fingerprint() == built_with
        yield finding("secret_matches" if is_same else "secret_differs")


def _secret_file(file: Path, built: bool) -> Finding:
    if not file.exists():
        return finding("secret_missing", file=str(file)) if built else finding("secret_later", file=str(file))
    try:
        size = len(read_regular(file).strip())
    except OSError as error:
        return finding("secret_unreadable", file=str(file), reason=str(error.strerror))
    if size < MIN_SECRET_BYTES:
        return finding("secret_file_short", file=str(file), bytes=MIN_SECRET_BYTES)
    others = 0o037 if is_shared(file.parent) else 0o077
    kind = "secret_open" if _mode(file) & others else "secret_private"
    return finding(kind, file=str(file), mode=f"{_mode(file):04o}")


def horizon_motion(horizon: int | None, now: int) -> HorizonMotion:
    if horizon is None or now - horizon >= MOVING_MS:
        return "still"
    return "ahead" if horizon - now > CLOCK_BEHIND_MS else "moving"


def clock(horizon: int | None, now: int) -> Finding:
    time = from_ms(now, UTC)
    if now < YEAR_2024_MS:
        return finding("clock_past", time=time)
    if horizon is not None and horizon_motion(horizon, now) == "ahead":
        return finding("clock_behind", time=time, horizon=from_ms(horizon, UTC), span=duration(horizon - now))
    return finding("clock", time=time)


def disk(settings: Settings) -> Finding:
    folder = next(path for path in (settings.store.absolute(), *settings.store.absolute().parents) if path.is_dir())
    free = shutil.disk_usage(folder).free
    kind = "disk_critical" if free < CRITICAL_DISK_BYTES else "disk_low" if free < LOW_DISK_BYTES else "disk_free"
    return finding(kind, size=f"{free / (1 << 30):,.1f}", folder=str(folder))


def ports(settings: Settings, use: PortUse) -> Iterator[Finding]:
    """Check whether each port is free. `use` says what uses the ports that are not free."""
    listeners = [("port", "port", settings.host, settings.port)]
    if settings.admin_port:
        listeners.append(("admin", "admin_port", settings.admin_host, settings.admin_port))
    used = {"unknown": "port_used", "service": "port_expected", "other": "port_taken"}[use]
    for check, setting, host, port in listeners:
        kind = "port_free" if is_free(host, port) else used
        yield finding(kind, check=check, address=f"{host}:{port}", setting=setting)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def check_login(settings: Settings, inspection: OperatorReads) -> Iterator[Finding]:
    """Check the permissions of the login and, if it is a login of the service or of a loader, the secret."""
    granted = inspection.permissions()
    if granted is None:
        return
    yield permissions(granted)
    if not (granted.serves or granted.loads):
        return
    try:
        yield from secret(settings, inspection.fingerprint())
    except (StoreMismatch, StoreUnavailable) as error:
        yield failed("secret", error.message, MESSAGES["see_postgresql"])


def servers(found: Sequence[ServerState], lag_ms: int) -> Iterator[Finding]:
    """Check each server, because a server can be down without any effect on API responses."""
    furthest = max((server.horizon or 0 for server in found), default=0)
    for server in found:
        yield _server(server, furthest, lag_ms)
    if found and not any(server.is_primary for server in found):
        yield finding("no_primary", seconds=KEYS_TRUSTED_SEC)


def _server(server: ServerState, furthest: int, lag_ms: int) -> Finding:
    if server.horizon is None:
        return finding("server_silent", subject=server.name, server=server.name)
    if server.is_primary:
        return finding("server_primary", subject=server.name, server=server.name)
    behind = furthest - server.horizon
    kind = "server_behind" if behind > lag_ms else "server_replica"
    return finding(kind, subject=server.name, server=server.name, seconds=f"{behind / 1000:,.1f}", milliseconds=behind)


def permissions(granted: Permissions) -> Finding:
    """Warn if a login that can serve has other permissions too, because nodes are exposed to the network."""
    named = {"owns_schema": granted.owns, "writes_books": granted.loads, "issues_keys": granted.issues_keys}
    extra = [MESSAGES[code] for code, is_granted in named.items() if is_granted]
    if granted.serves and extra:
        return finding("login_wide", login=granted.login, permissions=extra)
    return finding("login", login=granted.login, permissions=_tasks(granted))


def _tasks(granted: Permissions) -> Message:
    """Return all tasks that a login has the permissions for. A login that can serve must have no other task."""
    if granted.serves:
        return MESSAGES["can_serve"]
    if granted.loads:
        return MESSAGES["can_load_and_issue"] if granted.issues_keys else MESSAGES["can_load"]
    return MESSAGES["can_issue"] if granted.issues_keys else MESSAGES["no_permissions"]


def meter(address: str, problem: Message | None) -> Finding:
    if problem is None:
        return finding("meter_reachable", address=address)
    return finding("meter_problem", address=address, problem=problem.as_sentence())


NOTICES = "notices.json"
_FAILING = {"notify": "notify_failing", "heartbeat": "heartbeat_failing"}


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
            yield finding(_FAILING[what], since=from_ms(since, UTC), span=duration(now - since))
