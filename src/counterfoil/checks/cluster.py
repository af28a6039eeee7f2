"""The checks that `doctor` runs on a PostgreSQL store and its meter, each with advice on how to fix a problem."""

from collections.abc import Iterator, Sequence

from counterfoil import bootstrap
from counterfoil.checks.intake import check_intake
from counterfoil.checks.local import Finding, secret
from counterfoil.domain.access import KEYS_TRUSTED_SEC
from counterfoil.ports import Inspection, Permissions, ServerState, StoreMismatch, StoreUnavailable
from counterfoil.settings import Settings, display_value

SEE_DOCS = "See docs/operate-postgresql.md."


def check_cluster(settings: Settings, now: int) -> Iterator[Finding]:
    """Check the PostgreSQL store and the meter from this machine."""
    inspection = bootstrap.inspection(settings)
    (problem,) = inspection.problems().values()
    if problem:
        yield Finding("store", "fail", f"{problem.rstrip('.')}.", SEE_DOCS)
    else:
        yield Finding("store", "ok", f"{display_value(settings, 'store')} is reachable, and its schema is up to date.")
        yield from _check_store(settings, inspection, now)
    if settings.meter:
        yield meter(display_value(settings, "meter"), bootstrap.meter_problem(settings))


def _check_store(settings: Settings, inspection: Inspection, now: int) -> Iterator[Finding]:
    yield from servers(inspection.servers(), settings.replica_lag_ms)
    seen = inspection.permissions()
    if seen is None:
        return
    yield permissions(seen)
    if seen.serves or seen.loads:
        yield from _check_secret(settings, inspection)
        yield from check_intake(settings, inspection, now)


def _check_secret(settings: Settings, inspection: Inspection) -> Iterator[Finding]:
    try:
        built_with = inspection.fingerprint()
    except (StoreMismatch, StoreUnavailable) as error:
        yield Finding("secret", "fail", f"{str(error).rstrip('.')}.", SEE_DOCS)
    else:
        yield from secret(settings, built_with)


def servers(seen: Sequence[ServerState], lag_ms: int) -> Iterator[Finding]:
    """Check each server, because a server can be down without any effect on API responses."""
    furthest = max((server.horizon or 0 for server in seen), default=0)
    for server in seen:
        yield _server(server, furthest, lag_ms)
    if seen and not any(server.is_primary for server in seen):
        yield Finding(
            "primary",
            "fail",
            "No server accepts writes. Loads fail, and nodes accept only keys in their memory, "
            f"for at most {KEYS_TRUSTED_SEC} s.",
            "Promote a replica, or restart the primary. See docs/operate-faults.md.",
        )


def _server(server: ServerState, furthest: int, lag_ms: int) -> Finding:
    if server.horizon is None:
        return Finding(
            "server", "warn", f"{server.name} does not respond.", "Restart it, or remove it from the store address."
        )
    if server.is_primary:
        return Finding("server", "ok", f"{server.name} is the primary.")
    behind = furthest - server.horizon
    if behind > lag_ms:
        message = f"{server.name} is {behind / 1000:,.1f} s behind, so no reads are sent to it."
        return Finding("server", "warn", message, "Check its log, and pg_stat_replication on the primary.")
    return Finding("server", "ok", f"{server.name} is a replica, {behind:,} ms behind.")


def permissions(seen: Permissions) -> Finding:
    """Warn if a login that can serve has other permissions too, because nodes are exposed to the network."""
    named = (("owns the schema", seen.owns), ("can write the books", seen.loads), ("can issue keys", seen.issues_keys))
    extra = [what for what, is_granted in named if is_granted]
    if seen.serves and extra:
        return Finding(
            "rights",
            "warn",
            f"The login {seen.login} has more permissions than serving needs: it {' and '.join(extra)}.",
            "Use a separate login for serving: run `counterfoil migrate --roles` once, "
            "then `CREATE ROLE cf_api LOGIN IN ROLE counterfoil_serving`, and put that login in COUNTERFOIL_STORE.",
        )
    return Finding("rights", "ok", f"The login {seen.login} {_tasks(seen)}.")


def _tasks(seen: Permissions) -> str:
    """Return all tasks that a login has the permissions for. A login that can serve must have no other task."""
    if seen.serves:
        return "can serve and nothing else"
    if seen.loads and seen.issues_keys:
        return "can load and issue keys, and nothing else"
    if seen.loads:
        return "can load and nothing else"
    return "can issue keys and nothing else" if seen.issues_keys else "has no permissions here"


def meter(address: str, problem: str | None) -> Finding:
    if problem is None:
        return Finding("meter", "ok", f"{address} is reachable.")
    return Finding(
        "meter",
        "fail",
        f"{address} cannot be used: {problem}. Until it can, every request gets 503.",
        "Restart it. It then continues with the counts in the store. See docs/operate-faults.md.",
    )
