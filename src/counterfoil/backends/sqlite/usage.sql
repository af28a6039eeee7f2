-- name: RECORD
-- Two of the parameters are "" instead of None: see `_values`.
INSERT INTO {table} (at, key_id, route, status, error, took_us, personal_base, personal_members, request_id,
    detail)
VALUES (?, ?, ?, ?, nullif(?, ''), ?, nullif(?, ''), ?, ?, ?)

-- name: OLDEST_RECENT
SELECT min(rowid) FROM recent_requests

-- name: MOVE_RECENT
-- The parameter is the row number of the first record that is not moved.
INSERT INTO requests (at, key_id, route, status, error, took_us, personal_base, personal_members, request_id,
    detail)
SELECT at, key_id, route, status, error, took_us, personal_base, personal_members, request_id, detail
FROM recent_requests WHERE rowid < ? ORDER BY rowid

-- name: DELETE_MOVED
DELETE FROM recent_requests WHERE rowid < ?

-- name: PRUNE_REQUESTS
DELETE FROM requests WHERE number IN (SELECT number FROM requests WHERE at < ? LIMIT ?)

-- name: LATEST
-- Returns a key's latest admission, and the time of the admission that must be a minute old before another is allowed.
SELECT n, at, day, count, (SELECT at FROM admissions WHERE key_id = ?1 AND n = latest.n + 1 - ?2)
FROM admissions AS latest WHERE key_id = ?1 ORDER BY n DESC LIMIT 1

-- name: ADMIT
INSERT INTO admissions (key_id, n, at, day, count) VALUES (?, ?, ?, ?, ?)

-- name: FORGET
-- Reads only the oldest rows, so that the cost does not depend on the size of the window.
DELETE FROM admissions WHERE key_id = ?1 AND n IN
    (SELECT n FROM (SELECT n, at FROM admissions WHERE key_id = ?1 ORDER BY n LIMIT ?3) WHERE at <= ?2)

-- name: TOTAL
SELECT count FROM daily_totals WHERE key_id = ? AND day = ?

-- name: CLOSE_DAY
INSERT OR REPLACE INTO daily_totals (key_id, day, count) VALUES (?, ?, ?)

-- name: TOTALS_OF_KEY
SELECT key_id, day, count FROM daily_totals WHERE key_id = ?3 AND day BETWEEN ?1 AND ?2

-- name: DAY_OF_KEY
SELECT key_id, day, count FROM (SELECT * FROM admissions WHERE key_id = ?3 ORDER BY n DESC LIMIT 1)
WHERE day BETWEEN ?1 AND ?2

-- name: TOTALS_OF_ALL
SELECT key_id, day, count FROM daily_totals WHERE day BETWEEN :first AND :last

-- name: DAY_OF_ALL
SELECT key_id, day, count FROM admissions AS latest
WHERE n = (SELECT max(n) FROM admissions WHERE key_id = latest.key_id) AND day BETWEEN :first AND :last

-- name: COUNT_ERRORS
INSERT INTO daily_errors (key_id, day, error, count) VALUES (?, ?, ?, ?)
ON CONFLICT (key_id, day, error) DO UPDATE SET count = count + excluded.count

-- name: RECORD_PASSES
INSERT INTO passes (lineage, list_name, shop_id, server_time, ended_at, continued_at, covered)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (lineage, list_name, shop_id) DO UPDATE SET
    covered = merge_ranges(covered, excluded.covered),
    server_time = max(server_time, excluded.server_time),
    ended_at = max(ended_at, excluded.ended_at),
    continued_at = max(continued_at, excluded.continued_at)

-- name: STEADY
SELECT boot_id, shift FROM steady

-- name: NEWEST_ADMISSION
SELECT max(at) FROM admissions

-- name: SET_STEADY
INSERT OR REPLACE INTO steady (one, boot_id, shift) VALUES (1, ?, ?)

-- name: PRUNE_TOTALS
DELETE FROM daily_totals WHERE day < ?

-- name: PRUNE_ERRORS
DELETE FROM daily_errors WHERE day < ?

-- name: PRUNE_PASSES
DELETE FROM passes WHERE max(ended_at, continued_at) < ?

-- name: PRUNE_LAST_DAYS
-- Deletes the last admissions of keys that have not been used for 400 days.
DELETE FROM admissions WHERE day < ? AND at <= ?

-- name: FIND
SELECT row_id, major, minor, earliest, latest, ends_at FROM cursors
WHERE lineage = ? AND resource = ? AND query = ? AND cursor = ? AND ends_at > ? AND NOT expired

-- name: EXTEND
UPDATE cursors SET ends_at = max(ends_at, ?5)
WHERE lineage = ?1 AND resource = ?2 AND query = ?3 AND cursor = ?4 AND NOT expired

-- name: HAND_OUT
-- Returns an existing cursor for the position if its horizons are close enough to the new ones, and updates its horizons
-- and its lifetime. Otherwise, stores a new cursor under the row's ID, or under `fresh` if the row's ID is taken.
-- Returns no row if `fresh` is needed but is NULL or taken. An ID is taken as long as the table has a row for it, even
-- if that cursor has expired: see docs/decisions/0014.
INSERT INTO cursors (lineage, resource, query, cursor, row_id, major, minor, earliest, latest, ends_at)
SELECT ?1, ?2, ?3, chosen, ?4, ?5, ?6, ?7, ?8, ?10 FROM (
    SELECT coalesce(
        (
            SELECT cursor FROM cursors
            WHERE lineage = ?1 AND resource = ?2 AND query = ?3 AND row_id = ?4 AND major = ?5 AND minor = ?6
                AND ends_at > ?9 AND NOT expired AND max(latest, ?8) - min(earliest, ?7) <= ?11
            ORDER BY earliest DESC LIMIT 1
        ),
        CASE
            WHEN EXISTS (
                SELECT 1 FROM cursors WHERE lineage = ?1 AND resource = ?2 AND query = ?3 AND cursor = ?4
            ) THEN ?12
            ELSE ?4
        END
    ) AS chosen
) WHERE chosen IS NOT NULL
ON CONFLICT (lineage, resource, query, cursor) DO UPDATE SET
    earliest = min(earliest, excluded.earliest),
    latest = max(latest, excluded.latest),
    ends_at = max(ends_at, excluded.ends_at)
WHERE row_id = excluded.row_id AND major = excluded.major AND minor = excluded.minor
    AND ends_at > ?9 AND NOT expired AND max(latest, ?8) - min(earliest, ?7) <= ?11
RETURNING cursor

-- name: DELETE
-- The row of an expired cursor is kept for RESERVED_MS, so that its ID stays taken. If the clock is ahead for a while,
-- cursors may expire too early, but their rows are not deleted right away.
DELETE FROM cursors WHERE rowid IN (SELECT rowid FROM cursors WHERE ends_at <= ?1 AND expired LIMIT ?2)

-- name: EXPIRE
UPDATE cursors SET expired = 1, ends_at = ?1 + ?3
WHERE rowid IN (SELECT rowid FROM cursors WHERE ends_at <= ?1 AND NOT expired LIMIT ?2)

-- name: LAST_DAYS
SELECT key_id, max(day) FROM (
    SELECT key_id, day FROM daily_totals WHERE count > 0 UNION ALL SELECT key_id, day FROM admissions
) GROUP BY key_id
