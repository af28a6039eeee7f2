"""Checks of the servers of a database, of the permissions of a login, and of the meter."""

from collections.abc import Iterator, Sequence

from counterfoil.checks import local
from counterfoil.checks.findings import Finding, FindingKind, failed
from counterfoil.domain.access import KEYS_TRUSTED_SEC
from counterfoil.model.messages import Message
from counterfoil.operator_reads import OperatorReads
from counterfoil.ports import Permissions, ServerState, StoreMismatch, StoreUnavailable
from counterfoil.settings import Settings

SEE_POSTGRESQL = Message("see_postgresql", "See docs/more-machines.md.")


def check_login(settings: Settings, inspection: OperatorReads) -> Iterator[Finding]:
    """Check the permissions of the login and, if it is a login of the service or of a loader, the secret."""
    granted = inspection.permissions()
    if granted is None:
        return
    yield permissions(granted)
    if not (granted.serves or granted.loads):
        return
    try:
        yield from local.secret(settings, inspection.fingerprint())
    except (StoreMismatch, StoreUnavailable) as error:
        yield failed("secret", error.message, SEE_POSTGRESQL)


OWNS_SCHEMA = Message("owns_schema", "owns the schema")
WRITES_BOOKS = Message("writes_books", "can write the books")
ISSUES_KEYS = Message("issues_keys", "can issue keys")
LOGIN_WIDE = FindingKind(
    code="login_wide",
    check="rights",
    status="warn",
    text="The login {login} has more permissions than serving needs: it {permissions}.",
    advice="Use a separate login for serving: run `counterfoil migrate --roles` once, then `CREATE ROLE cf_api LOGIN "
    "IN ROLE counterfoil_serving`, and put that login in COUNTERFOIL_STORE.",
)
LOGIN = FindingKind(code="login", check="rights", status="ok", text="The login {login} {permissions}.")


def permissions(granted: Permissions) -> Finding:
    """Warn if a login that can serve has other permissions too, because nodes are exposed to the network."""
    tasks = [(OWNS_SCHEMA, granted.owns), (WRITES_BOOKS, granted.loads), (ISSUES_KEYS, granted.issues_keys)]
    extra = [task for task, is_granted in tasks if is_granted]
    if granted.serves and extra:
        return LOGIN_WIDE(login=granted.login, permissions=extra)
    return LOGIN(login=granted.login, permissions=_tasks(granted))


CAN_SERVE = Message("can_serve", "can serve and nothing else")
CAN_LOAD_AND_ISSUE = Message("can_load_and_issue", "can load and issue keys, and nothing else")
CAN_LOAD = Message("can_load", "can load and nothing else")
CAN_ISSUE = Message("can_issue", "can issue keys and nothing else")
NO_PERMISSIONS = Message("no_permissions", "has no permissions here")


def _tasks(granted: Permissions) -> Message:
    """Return all tasks that a login has the permissions for. A login that can serve must have no other task."""
    if granted.serves:
        return CAN_SERVE
    if granted.loads:
        return CAN_LOAD_AND_ISSUE if granted.issues_keys else CAN_LOAD
    return CAN_ISSUE if granted.issues_keys else NO_PERMISSIONS


NO_PRIMARY = FindingKind(
    code="no_primary",
    check="primary",
    status="fail",
    text="No server accepts writes. Loads fail, and nodes accept only keys in their memory, for at most {seconds} s.",
    advice="Promote a replica, or restart the primary. See docs/runbook.md.",
)


def servers(found: Sequence[ServerState], lag_ms: int) -> Iterator[Finding]:
    """Check each server, because a server can be down without any effect on API responses."""
    furthest = max((server.horizon or 0 for server in found), default=0)
    for server in found:
        yield _server(server, furthest, lag_ms)
    if found and not any(server.is_primary for server in found):
        yield NO_PRIMARY(seconds=KEYS_TRUSTED_SEC)


SERVER_SILENT = FindingKind(
    code="server_silent",
    check="server",
    status="warn",
    text="{server} does not respond.",
    advice="Restart it, or remove it from the store address.",
)
SERVER_PRIMARY = FindingKind(code="server_primary", check="server", status="ok", text="{server} is the primary.")
SERVER_BEHIND = FindingKind(
    code="server_behind",
    check="server",
    status="warn",
    text="{server} is {seconds} s behind, so no reads are sent to it.",
    advice="Check its log, and pg_stat_replication on the primary.",
)
SERVER_REPLICA = FindingKind(
    code="server_replica", check="server", status="ok", text="{server} is a replica, {milliseconds} ms behind."
)


def _server(server: ServerState, furthest: int, lag_ms: int) -> Finding:
    if server.horizon is None:
        return SERVER_SILENT(subject=server.name, server=server.name)
    if server.is_primary:
        return SERVER_PRIMARY(subject=server.name, server=server.name)
    behind = furthest - server.horizon
    kind = SERVER_BEHIND if behind > lag_ms else SERVER_REPLICA
    return kind(subject=server.name, server=server.name, seconds=f"{behind / 1000:,.1f}", milliseconds=behind)


METER_REACHABLE = FindingKind(code="meter_reachable", check="meter", status="ok", text="{address} is reachable.")
METER_PROBLEM = FindingKind(
    code="meter_problem",
    check="meter",
    status="fail",
    text="{address} cannot be used, so every request gets 503. {problem}",
    advice="Restart it. It then continues with the counts in the store. See docs/runbook.md.",
)


def meter(address: str, problem: Message | None) -> Finding:
    if problem is None:
        return METER_REACHABLE(address=address)
    return METER_PROBLEM(address=address, problem=problem.as_sentence())
