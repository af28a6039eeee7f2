-- name: LOCK_AUDIT
-- Entries are numbered under this lock, so that no number is used twice.
SELECT pg_advisory_xact_lock(hashtext('counterfoil audit'))

-- name: APPEND
INSERT INTO audit (origin, number, at, act, actor, via, host, key_id, changes, detail)
SELECT 'postgresql', coalesce(max(number), 0) + 1, %s, %s, %s, %s, %s, %s, %s, %s
FROM audit WHERE origin = 'postgresql'

-- name: ALL
SELECT body FROM keys

-- name: FIND
SELECT body FROM keys WHERE key_id = %s

-- name: LOCK_KEY
SELECT body FROM keys WHERE key_id = %s FOR UPDATE

-- name: ADD
INSERT INTO keys (key_id, secret_digest, body) VALUES (%s, %s, %s)

-- name: CHANGE
UPDATE keys SET body = %s WHERE key_id = %s

-- name: NEXT_GENERATION
-- Running services read all keys again when the generation changes.
UPDATE generation SET number = number + 1, at = clock_timestamp()

-- name: PRUNE_MONTHS
SELECT drop_request_months(%s)

-- name: PRUNE_REQUESTS
WITH old AS (SELECT tableoid, ctid FROM requests WHERE at < %s LIMIT %s)
DELETE FROM requests USING old WHERE requests.tableoid = old.tableoid AND requests.ctid = old.ctid

-- name: PRUNE_TOTALS
DELETE FROM daily_totals WHERE day < %s

-- name: PRUNE_ERRORS
DELETE FROM daily_errors WHERE day < %s

-- name: PRUNE_PASSES
DELETE FROM passes WHERE greatest(ended_at, continued_at) < %s

-- name: PRUNE_METERS
-- Deletes the rows of keys that have not been used for 400 days. Each row holds the count of the key's last active day.
DELETE FROM meters WHERE day < %s
    AND at <= coalesce(%s, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) + ahead - 60000000
RETURNING key_id

-- name: PRUNE_ADMISSIONS
DELETE FROM admissions WHERE key_id = ANY(%s)

-- name: DELETE_CURSORS
-- The row of an expired cursor is kept for RESERVED_MS, so that its ID stays taken. If the clock is ahead for a while,
-- cursors may expire too early, but their rows are not deleted right away.
DELETE FROM cursors WHERE ctid = ANY (ARRAY(SELECT ctid FROM cursors WHERE ends_at <= %s AND expired LIMIT %s))

-- name: EXPIRE_CURSORS
UPDATE cursors SET expired = true, ends_at = %s
WHERE ctid = ANY (ARRAY(SELECT ctid FROM cursors WHERE ends_at <= %s AND NOT expired LIMIT %s))
    AND NOT expired AND ends_at <= %s

-- name: ROLE
SELECT 1 FROM pg_roles WHERE rolname = %s
