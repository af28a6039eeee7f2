-- name: HEAD_OF_BASE
SELECT (SELECT body FROM bases WHERE id = $1), horizon.at FROM horizon

-- name: HEAD_OF_BASES
SELECT horizon.at, bases.id, bases.body FROM horizon LEFT JOIN bases ON bases.id = ANY($1)

-- name: BILLS_BY_DAY
-- Every row of a page has a flag that is true on the first page, or if the cursor's row still exists. An empty page has
-- one row with only this flag.
SELECT page.*, start.there FROM (
    SELECT $4::text = '' OR EXISTS (SELECT 1 FROM bills WHERE shop = $1 AND id = $4::text) AS there
) AS start LEFT JOIN LATERAL (
    SELECT bill_day, closed_at, id, seal, body FROM bills
    WHERE shop = $1 AND (bill_day, closed_at, id) > ($2::integer, $3::bigint, $4::text) AND bill_day <= $5
    ORDER BY bill_day, closed_at, id LIMIT $6
) AS page ON true

-- name: BILLS_BY_CHANGE
SELECT page.*, start.there FROM (
    SELECT $3::text = '' OR EXISTS (SELECT 1 FROM bills WHERE shop = $1 AND id = $3::text) AS there
) AS start LEFT JOIN LATERAL (
    SELECT updated_at, 0, id, seal, body FROM bills
    WHERE shop = $1 AND (updated_at, id) > ($2::bigint, $3::text) AND updated_at <= $4
    ORDER BY updated_at, id LIMIT $5
) AS page ON true

-- name: BILL
SELECT seal, body FROM bills WHERE shop = ANY($1) AND id = $2 ORDER BY shop LIMIT 1

-- name: MEMBERS
SELECT page.*, start.there FROM (
    SELECT $3::text = '' OR EXISTS (SELECT 1 FROM members WHERE provider_id = $1 AND token = $3::text) AS there
) AS start LEFT JOIN LATERAL (
    SELECT created_at, 0, token, form FROM members
    WHERE provider_id = $1 AND (created_at, token) > ($2::bigint, $3::text)
    ORDER BY created_at, token LIMIT $4
) AS page ON true

-- name: MEMBER
-- Citus cannot join an array of bases with the members of several shards, so this statement runs once for each base. The
-- comment on `_MEMBER` in books.py explains why base and token are compared as a pair.
SELECT provider_id, form FROM members
WHERE provider_id = $1 AND (provider_id, token) BETWEEN ($1, $2) AND ($1, $2)
ORDER BY provider_id, token LIMIT 1

-- name: ACCOUNTS
SELECT channel, token FROM accounts WHERE provider_id = $1 AND hash = $2 ORDER BY created_at DESC, token DESC

-- name: EXISTING
SELECT id FROM bills WHERE shop = $1 AND id = ANY($2)

-- name: REMOVED
-- A section of the change feed. The bills of a shop are read from its shard, and removals from the coordinator.
SELECT removed_at, id, NULL::bytea, NULL::bytea FROM removed_bills
WHERE shop = $1 AND (removed_at, id) > ($2::bigint, $3::text) AND removed_at <= $4
ORDER BY removed_at, id LIMIT $5

-- name: UNTRACKED
SELECT loaded_at, id, seal, body FROM bills
WHERE shop = $1 AND updated_at IS NULL AND (loaded_at, id) > ($2::bigint, $3::text) AND loaded_at <= $4
ORDER BY loaded_at, id LIMIT $5

-- name: TRACKED
SELECT updated_at, id, seal, body FROM bills
WHERE shop = $1 AND (updated_at, id) > ($2::bigint, $3::text) AND updated_at <= $4
ORDER BY updated_at, id LIMIT $5
