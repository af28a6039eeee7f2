-- name: ADMIT
SELECT place, wait_us, day, count, NULL FROM admit($1, $2, $3, $4)

-- name: ADMIT_WITH_HORIZON
-- With several servers, an admission also returns the horizon to report: see docs/decisions/0015-monotonic-reads.md.
SELECT place, wait_us, day, count, horizon FROM admit_with_horizon($1, $2, $3, $4, $5, $6)

-- name: RECORD
INSERT INTO requests (at, key_id, route, status, error, took_us, personal_base, personal_members, request_id,
    detail)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::bigint[],
    $7::text[], $8::integer[], $9::text[], $10::text[])

-- name: ADMIT_AND_RECORD
WITH kept AS ({RECORD})
SELECT place, wait_us, day, count, NULL FROM admit($11, $12, $13, $14)

-- name: ADMIT_WITH_HORIZON_AND_RECORD
WITH kept AS ({RECORD})
SELECT place, wait_us, day, count, horizon FROM admit_with_horizon($11, $12, $13, $14, $15, $16)

-- name: MONTH
SELECT request_month($1)

-- name: COUNT_ERRORS
-- Rows are locked in a fixed order, so that two nodes cannot deadlock.
INSERT INTO daily_errors AS known (key_id, day, error, count)
SELECT * FROM unnest($1::text[], $2::integer[], $3::text[], $4::bigint[]) AS counted (key_id, day, error, count)
ORDER BY key_id COLLATE "C", day, error COLLATE "C"
ON CONFLICT (key_id, day, error) DO UPDATE SET count = known.count + excluded.count

-- name: RECORD_PASSES
INSERT INTO passes AS known (lineage, list_name, shop_id, server_time, ended_at, continued_at, covered)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[])
    AS read (lineage, list_name, shop_id, server_time, ended_at, continued_at, covered)
ORDER BY lineage COLLATE "C", list_name COLLATE "C", shop_id COLLATE "C"
ON CONFLICT (lineage, list_name, shop_id) DO UPDATE SET
    covered = merge_ranges(known.covered, excluded.covered),
    server_time = greatest(known.server_time, excluded.server_time),
    ended_at = greatest(known.ended_at, excluded.ended_at),
    continued_at = greatest(known.continued_at, excluded.continued_at)

-- name: COUNTS
SELECT day, count FROM daily_totals WHERE key_id = $1 AND day BETWEEN $2 AND $3
UNION ALL
SELECT day, count FROM meters WHERE key_id = $1 AND day BETWEEN $2 AND $3 AND n > 0

-- name: RAISE_TOTALS
INSERT INTO daily_totals (key_id, day, count)
SELECT * FROM unnest($1::text[], $2::integer[], $3::bigint[]) AS meter (key_id, day, count) ORDER BY key_id, day
ON CONFLICT (key_id, day) DO UPDATE SET count = excluded.count WHERE daily_totals.count < excluded.count

-- name: HIGHER
SELECT kept.key_id, kept.day, kept.count
FROM unnest($1::text[], $2::integer[], $3::bigint[]) AS meter (key_id, day, count)
JOIN daily_totals AS kept USING (key_id, day) WHERE kept.count > meter.count

-- name: FIND
SELECT row_id, major, minor, earliest, latest, ends_at FROM cursors
WHERE lineage = $1 AND resource = $2 AND query = $3 AND cursor = $4 AND ends_at > $5 AND NOT expired

-- name: FIND_ON_REPLICA
SELECT found.*, horizon.at FROM horizon LEFT JOIN LATERAL ({FIND}) AS found ON true

-- name: EXTEND
UPDATE cursors SET ends_at = greatest(ends_at, $5)
WHERE lineage = $1 AND resource = $2 AND query = $3 AND cursor = $4 AND NOT expired

-- name: HORIZON
SELECT at FROM horizon

-- name: HAND_OUT
-- Returns an existing cursor for the position if its horizons are close enough to the new ones, and updates its horizons
-- and its lifetime. Otherwise, stores a new cursor under the row's ID, or under `fresh` if the row's ID is taken.
-- Returns no row if `fresh` is needed but is NULL or taken. An ID is taken as long as the table has a row for it, even
-- if that cursor has expired: see docs/decisions/0014.
INSERT INTO cursors AS held
    (lineage, resource, query, cursor, row_id, major, minor, earliest, latest, ends_at)
SELECT $1, $2, $3, chosen, $4, $5, $6, $7, $8, $10 FROM (
    SELECT coalesce(
        (
            SELECT cursor FROM cursors
            WHERE lineage = $1 AND resource = $2 AND query = $3 AND row_id = $4 AND major = $5 AND minor = $6
                AND ends_at > $9 AND NOT expired
                AND greatest(latest, $8::bigint) - least(earliest, $7::bigint) <= $11::bigint
            ORDER BY earliest DESC LIMIT 1
        ),
        CASE
            WHEN EXISTS (
                SELECT FROM cursors WHERE lineage = $1 AND resource = $2 AND query = $3 AND cursor = $4
            ) THEN $12::text
            ELSE $4
        END
    ) AS chosen
) AS choice WHERE chosen IS NOT NULL
ON CONFLICT (lineage, resource, query, cursor) DO UPDATE SET
    earliest = least(held.earliest, excluded.earliest),
    latest = greatest(held.latest, excluded.latest),
    ends_at = greatest(held.ends_at, excluded.ends_at)
WHERE (held.row_id, held.major, held.minor) = (excluded.row_id, excluded.major, excluded.minor)
    AND held.ends_at > $9 AND NOT held.expired
    AND greatest(held.latest, $8::bigint) - least(held.earliest, $7::bigint) <= $11::bigint
RETURNING cursor

-- name: INSERT
INSERT INTO cursors (lineage, resource, query, cursor, row_id, major, minor, earliest, latest, ends_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (lineage, resource, query, cursor)

-- name: ADOPT
-- Stores a cursor that was handed out while there was no primary. Its ID is long and random, so an existing row with
-- this ID is the same cursor, already stored.
{INSERT} DO NOTHING

-- name: CORRECT
-- Stores a cursor that was lost in a failover or not transferred yet. It overwrites any other cursor with the same ID.
{INSERT} DO UPDATE SET
    row_id = excluded.row_id, major = excluded.major, minor = excluded.minor,
    earliest = excluded.earliest, latest = excluded.latest,
    ends_at = excluded.ends_at, expired = false
