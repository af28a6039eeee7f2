"""The checks that `doctor` runs on a PostgreSQL store and its meter, each with advice on how to fix a problem."""

from collections.abc import Iterator, Sequence

from counterfoil.checks.findings import MESSAGES, Finding, failed, finding
from counterfoil.checks.local import secret
from counterfoil.domain.access import KEYS_TRUSTED_SEC
from counterfoil.domain.messages import Message
from counterfoil.operator_reads import OperatorReads
from counterfoil.ports import Permissions, ServerState, StoreMismatch, StoreUnavailable
from counterfoil.settings import Settings


def check_login(settings: Settings, inspection: OperatorReads) -> Iterator[Finding]:
    """Check the permissions of the login and, if it is a login of the service or of a loader, the secret."""
    granted = inspection.permissions()
    if granted is None:
        return
    yield permissions(granted)
    if granted.serves or granted.loads:
        yield from _check_secret(settings, inspection)


def _check_secret(settings: Settings, inspection: OperatorReads) -> Iterator[Finding]:
    try:
        built_with = inspection.fingerprint()
    except (StoreMismatch, StoreUnavailable) as error:
        yield failed("secret", error.message, MESSAGES["see_postgresql"])
    else:
        yield from secret(settings, built_with)


def servers(found: Sequence[ServerState], lag_ms: int) -> Iterator[Finding]:
    """Check each server, because a server can be down without any effect on API responses."""
    furthest = max((server.horizon or 0 for server in found), default=0)
    for server in found:
        yield _server(server, furthest, lag_ms)
    if found and not any(server.is_primary for server in found):
        yield finding("no_primary", seconds=KEYS_TRUSTED_SEC)


def _server(server: ServerState, furthest: int, lag_ms: int) -> Finding:
    behind = None if server.horizon is None else furthest - server.horizon
    if behind is None:
        return finding("server_silent", subject=server.name, server=server.name)
    if server.is_primary:
        return finding("server_primary", subject=server.name, server=server.name)
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
