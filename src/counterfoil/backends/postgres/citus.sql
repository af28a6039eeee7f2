-- name: ADD_WRITER
-- `taken` is the highest stamp that any writer has taken; `writer` is the Citus global PID of that writer's session.
ALTER TABLE horizon ADD COLUMN taken bigint NOT NULL DEFAULT 0, ADD COLUMN writer bigint NOT NULL DEFAULT 0

-- name: DISTRIBUTE
SELECT create_distributed_table(%s, %s, colocate_with => %s)

-- name: HAS_CITUS
SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')

-- name: WORKERS
SELECT count(*) FROM pg_dist_node WHERE noderole = 'primary' AND isactive AND shouldhaveshards

-- name: PLACEMENTS
SELECT coalesce(max(copies), 1) FROM (
    SELECT count(*) AS copies FROM citus_shards WHERE table_name = ANY(%s::regclass[]) GROUP BY shardid
) AS placed

-- name: OTHER_SESSIONS
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'counterfoil' AND pid <> pg_backend_pid()

-- name: UNCOMMITTED
SELECT coalesce(sum(CASE WHEN success THEN result::integer ELSE 1 END), 0) FROM run_command_on_all_nodes(
    'SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database() AND gid LIKE ''citus%%'''
)

-- name: LOCK
-- Only one writer at a time holds this lock. It belongs to the session, so it is released at the latest when the session
-- ends.
SELECT pg_advisory_lock(hashtext('counterfoil write'))

-- name: UNLOCK
SELECT pg_advisory_unlock(hashtext('counterfoil write'))

-- name: NOW
SELECT {CLOCK}

-- name: TAKE
UPDATE horizon SET taken = greatest(coalesce(%(now)s::bigint, {CLOCK}), at + 1), writer = citus_backend_gpid()
WHERE taken <= at RETURNING taken, coalesce(%(now)s::bigint, {CLOCK})

-- name: PUBLISH
UPDATE horizon SET at = taken WHERE taken > at

-- name: ADVANCE
UPDATE horizon
SET at = greatest(at, least(coalesce(%s::bigint, {CLOCK}), CASE WHEN taken > at THEN taken - 1 END))
RETURNING at, taken > at

-- name: UNPUBLISHED
SELECT taken, writer FROM horizon WHERE taken > at

-- name: PUBLISH_ABANDONED
UPDATE horizon SET at = taken WHERE taken = %s AND taken > at

-- name: WRITER_IS_GONE
-- Terminates the remaining sessions of a dead writer on all nodes, and waits up to 3 seconds for each of them to end.
-- Returns whether none is left.
SELECT coalesce(bool_and(success AND result = 't'), true) FROM run_command_on_all_nodes(format(
    'SELECT coalesce(bool_and(pg_terminate_backend(pid, 3000)), true) FROM pg_stat_activity
     WHERE application_name = ''citus_internal gpid=%%s''', %s::bigint
))

-- name: BILLS
SELECT shop, id, trading_day, rev, digest, withheld, bill_day FROM bills WHERE shop = %s AND id = ANY(%s)

-- name: BODIES
SELECT shop, id, body FROM bills WHERE shop = %s AND id = ANY(%s)

-- name: REMOVE_BILLS
DELETE FROM bills WHERE shop = %s AND id = ANY(%s)

-- name: SETTLE_BILLS
UPDATE bills SET trading_day = asked.trading_day, rev = asked.rev, withheld = asked.withheld
FROM unnest(%s::text[], %s::text[], %s::numeric[], %s::bytea[]) AS asked (id, trading_day, rev, withheld)
WHERE bills.shop = %s AND bills.id = asked.id

-- name: SETTLE_FACTS
UPDATE bills SET facts_version = asked.version, trading_day = asked.trading_day, withheld = asked.withheld
FROM unnest(%s::text[], %s::integer[], %s::text[], %s::bytea[]) AS asked (id, version, trading_day, withheld)
WHERE bills.shop = %s AND bills.id = asked.id

-- name: REMOVE_MEMBERS
DELETE FROM members WHERE provider_id = %s AND token = ANY(%s)

-- name: REMOVE_ACCOUNTS
DELETE FROM accounts WHERE provider_id = %s AND token = ANY(%s)
