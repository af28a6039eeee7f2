-- name: STATE
SELECT pg_is_in_recovery(), at FROM horizon

-- name: EXTENT
SELECT pg_database_size(current_database())::bigint, (SELECT max(number) FROM migrations)::text,
    current_setting('server_version')

-- name: PERMISSIONS
-- Returns the login, whether it can serve, load and issue keys (see roles.sql), and whether it owns the schema.
SELECT current_user,
    has_table_privilege('keys', 'SELECT') AND has_table_privilege('admissions', 'INSERT'),
    has_table_privilege('bills', 'INSERT'),
    has_table_privilege('keys', 'INSERT'),
    pg_has_role(nspowner, 'USAGE')
FROM pg_namespace WHERE nspname = 'counterfoil'

-- name: COUNTS
-- After a switch between the store's own meter and a shared meter, both `meters` and `daily_totals` may have a count for
-- the same day. The higher count is newer.
SELECT key_id, day, max(count) FROM (
    SELECT key_id, day, count FROM daily_totals WHERE day BETWEEN :first AND :last
    UNION ALL
    SELECT key_id, day, count FROM meters WHERE day BETWEEN :first AND :last AND n > 0
) AS counts GROUP BY key_id, day

-- name: LAST_DAYS
SELECT key_id, max(day) FROM (
    SELECT key_id, day FROM daily_totals WHERE count > 0 UNION ALL SELECT key_id, day FROM meters WHERE n > 0
) AS used GROUP BY key_id
