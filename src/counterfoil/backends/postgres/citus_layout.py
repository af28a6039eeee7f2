"""Table layout on Citus: the large tables are distributed, and all others stay on the coordinator.

There are no reference tables, and each transaction of a load writes only to the
coordinator or only to the shards of one shop or base. So none spans two nodes,
and none needs two-phase commit. See docs/decisions/0013 for the reasons.
"""

from typing import Any

from counterfoil.backends.postgres.admin_connections import Connection, checked_connection
from counterfoil.backends.postgres.schema import IS_DISTRIBUTED
from counterfoil.ports import StoreMismatch, StoreUnavailable

# Maps each distributed table to its distribution column. Tables with the same column are co-located.
DISTRIBUTED = {"bills": "shop", "members": "provider_id", "accounts": "provider_id"}

# `taken` is the highest stamp that any writer has taken; `writer` is the Citus global PID of that writer's session.
_ADD_WRITER = """
    ALTER TABLE horizon ADD COLUMN taken bigint NOT NULL DEFAULT 0, ADD COLUMN writer bigint NOT NULL DEFAULT 0
"""
_DISTRIBUTE = "SELECT create_distributed_table(%s, %s, colocate_with => %s)"
_HAS_CITUS = "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')"
_WORKERS = "SELECT count(*) FROM pg_dist_node WHERE noderole = 'primary' AND isactive AND shouldhaveshards"
_PLACEMENTS = """
    SELECT coalesce(max(copies), 1) FROM (
        SELECT count(*) AS copies FROM citus_shards WHERE table_name = ANY(%s::regclass[]) GROUP BY shardid
    ) AS placed
"""
_OTHER_SESSIONS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'counterfoil' AND pid <> pg_backend_pid()
"""
_UNCOMMITTED = """
    SELECT coalesce(sum(CASE WHEN success THEN result::integer ELSE 1 END), 0) FROM run_command_on_all_nodes(
        'SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database() AND gid LIKE ''citus%%'''
    )
"""


def is_distributed(connection: Connection) -> bool:
    return bool(_value(connection, IS_DISTRIBUTED))


def distribute(url: str) -> list[str]:
    """Distribute the large tables over the workers; return the names of the tables that this call distributed."""
    with checked_connection(url) as connection:
        if is_distributed(connection):
            return []
        _require_citus(connection)
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('counterfoil migrate'))")
            if is_distributed(connection):
                return []
            connection.execute(_ADD_WRITER)
            # `horizon` is locked from here on, so a ledger that connects later waits and then sees the new layout.
            _require_no_other_sessions(connection)
            _distribute(connection)
        _require_committed(connection)
    return list(DISTRIBUTED)


def _distribute(connection: Connection) -> None:
    first: dict[str, str] = {}
    for table, column in DISTRIBUTED.items():
        connection.execute(_DISTRIBUTE, (table, column, first.setdefault(column, "none")))
        first[column] = table
    if _value(connection, _PLACEMENTS, list(DISTRIBUTED)) > 1:
        raise StoreMismatch(
            "citus.shard_replication_factor is greater than 1, so Citus would commit every write in two phases. "
            "Set it to 1 and use streaming replication for each worker."
        )


def _require_citus(connection: Connection) -> None:
    if not _value(connection, _HAS_CITUS):
        raise StoreMismatch(
            "this database does not have Citus. Run `CREATE EXTENSION citus` in it on every node, "
            "add the workers with `citus_add_node`, then run `counterfoil migrate --distribute` again."
        )
    if not _value(connection, _WORKERS):
        raise StoreMismatch("the Citus cluster has no workers. Add one with `SELECT citus_add_node(host, port)`.")
    _require_no_other_sessions(connection)


def _require_no_other_sessions(connection: Connection) -> None:
    others = _other_sessions(connection)
    if others:
        raise StoreMismatch(
            f"other Counterfoil sessions are using this database ({others}), and they would keep writing "
            "as if the tables were not distributed. "
            "Stop every `serve` and `load`, then run `counterfoil migrate --distribute` again."
        )


def _other_sessions(connection: Connection) -> int:
    """Return the number of other sessions, after waiting up to two seconds for sessions that are closing."""
    for _ in range(20):
        # Within a transaction, PostgreSQL would otherwise return the same sessions each time.
        connection.execute("SELECT pg_stat_clear_snapshot()")
        others = int(_value(connection, _OTHER_SESSIONS))
        if not others:
            return 0
        connection.execute("SELECT pg_sleep(0.1)")
    return others


def _require_committed(connection: Connection) -> None:
    """Raise StoreUnavailable if a node has not committed yet.

    Distributing a table commits in two phases, and its rows are invisible until
    every node has committed.
    """
    if _value(connection, _UNCOMMITTED):
        raise StoreUnavailable(
            "the tables are distributed, but not every node has committed yet. Start services only when "
            "`SELECT gid FROM pg_prepared_xacts` returns no rows on any node, which normally takes less than a minute."
        )


def _value(connection: Connection, statement: str, *values: object) -> Any:
    (found,) = connection.execute(statement.encode(), values).fetchone() or (None,)
    return found
