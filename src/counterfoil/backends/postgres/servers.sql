-- name: STATUS
SELECT pg_is_in_recovery(), horizon.at,
    coalesce($1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint),
    CASE WHEN pg_is_in_recovery() THEN '' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END
FROM horizon

-- name: RAISE_HORIZON
-- Ensures that a new primary stamps rows above every horizon that was reported before the old primary was lost.
UPDATE horizon SET at = greatest(at, $1)

-- name: HORIZON
SELECT at FROM horizon
