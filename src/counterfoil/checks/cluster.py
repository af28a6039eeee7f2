"""The checks that `doctor` runs on a PostgreSQL store and its meter, each with advice on how to fix a problem."""

from collections.abc import Iterator, Sequence

from counterfoil.checks.findings import Finding, fail, failed, ok, warn
from counterfoil.checks.local import secret
from counterfoil.domain.access import KEYS_TRUSTED_SEC
from counterfoil.domain.messages import Message
from counterfoil.operator_reads import OperatorReads
from counterfoil.ports import Permissions, ServerState, StoreMismatch, StoreUnavailable
from counterfoil.settings import Settings

SEE_POSTGRESQL = Message("see_postgresql", "See docs/operate-postgresql.md.")


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
        yield failed("secret", error.message, SEE_POSTGRESQL)
    else:
        yield from secret(settings, built_with)


NO_PRIMARY = fail(
    "primary",
    "no_primary",
    "No server accepts writes. Loads fail, and nodes accept only keys in their memory, for at most {seconds} s.",
    "Promote a replica, or restart the primary. See docs/operate-faults.md.",
)
SERVER_SILENT = warn(
    "server", "server_silent", "{server} does not respond.", "Restart it, or remove it from the store address."
)
SERVER_PRIMARY = ok("server", "server_primary", "{server} is the primary.")
SERVER_BEHIND = warn(
    "server",
    "server_behind",
    "{server} is {seconds} s behind, so no reads are sent to it.",
    "Check its log, and pg_stat_replication on the primary.",
)
SERVER_REPLICA = ok("server", "server_replica", "{server} is a replica, {milliseconds} ms behind.")


def servers(found: Sequence[ServerState], lag_ms: int) -> Iterator[Finding]:
    """Check each server, because a server can be down without any effect on API responses."""
    furthest = max((server.horizon or 0 for server in found), default=0)
    for server in found:
        yield _server(server, furthest, lag_ms)
    if found and not any(server.is_primary for server in found):
        yield NO_PRIMARY(seconds=KEYS_TRUSTED_SEC)


def _server(server: ServerState, furthest: int, lag_ms: int) -> Finding:
    behind = None if server.horizon is None else furthest - server.horizon
    if behind is None:
        return SERVER_SILENT(subject=server.name, server=server.name)
    if server.is_primary:
        return SERVER_PRIMARY(subject=server.name, server=server.name)
    kind = SERVER_BEHIND if behind > lag_ms else SERVER_REPLICA
    return kind(subject=server.name, server=server.name, seconds=f"{behind / 1000:,.1f}", milliseconds=behind)


LOGIN_WIDE = warn(
    "rights",
    "login_wide",
    "The login {login} has more permissions than serving needs: it {permissions}.",
    "Use a separate login for serving: run `counterfoil migrate --roles` once, then `CREATE ROLE cf_api LOGIN IN ROLE "
    "counterfoil_serving`, and put that login in COUNTERFOIL_STORE.",
)
LOGIN = ok("rights", "login", "The login {login} {permissions}.")
OWNS_SCHEMA = Message("owns_schema", "owns the schema")
WRITES_BOOKS = Message("writes_books", "can write the books")
ISSUES_KEYS = Message("issues_keys", "can issue keys")
CAN_SERVE = Message("can_serve", "can serve and nothing else")
CAN_LOAD_AND_ISSUE = Message("can_load_and_issue", "can load and issue keys, and nothing else")
CAN_LOAD = Message("can_load", "can load and nothing else")
CAN_ISSUE = Message("can_issue", "can issue keys and nothing else")
NO_PERMISSIONS = Message("no_permissions", "has no permissions here")


def permissions(granted: Permissions) -> Finding:
    """Warn if a login that can serve has other permissions too, because nodes are exposed to the network."""
    named = ((OWNS_SCHEMA, granted.owns), (WRITES_BOOKS, granted.loads), (ISSUES_KEYS, granted.issues_keys))
    extra = [permission for permission, is_granted in named if is_granted]
    if granted.serves and extra:
        return LOGIN_WIDE(login=granted.login, permissions=extra)
    return LOGIN(login=granted.login, permissions=_tasks(granted))


def _tasks(granted: Permissions) -> Message:
    """Return all tasks that a login has the permissions for. A login that can serve must have no other task."""
    if granted.serves:
        return CAN_SERVE
    if granted.loads:
        return CAN_LOAD_AND_ISSUE if granted.issues_keys else CAN_LOAD
    return CAN_ISSUE if granted.issues_keys else NO_PERMISSIONS


METER_REACHABLE = ok("meter", "meter_reachable", "{address} is reachable.")
METER_PROBLEM = fail(
    "meter",
    "meter_problem",
    "{address} cannot be used, so every request gets 503. {problem}",
    "Restart it. It then continues with the counts in the store. See docs/operate-faults.md.",
)


def meter(address: str, problem: Message | None) -> Finding:
    return (
        METER_REACHABLE(address=address)
        if problem is None
        else METER_PROBLEM(address=address, problem=problem.as_sentence())
    )
