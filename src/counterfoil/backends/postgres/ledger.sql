-- name: CLOCK
(extract(epoch FROM clock_timestamp()) * 1000)::bigint

-- name: LOCK
SELECT at, {CLOCK} FROM horizon FOR UPDATE

-- name: SET_HORIZON
UPDATE horizon SET at = %s

-- name: ADVANCE
-- If a writer holds the row lock, this statement waits and then sees the value that the writer committed.
UPDATE horizon SET at = greatest(at, coalesce(%s, {CLOCK})) RETURNING at

-- name: LAST_SHOP
SELECT coalesce(max(number), 0) FROM shops

-- name: SHOPS
SELECT number, id, franchise_id, provider_id, removed, rev, latest_version, applied_version, facts, body
FROM shops WHERE id = ANY(%s)

-- name: PUT_SHOPS
INSERT INTO shops
    (number, id, franchise_id, provider_id, removed, rev, latest_version, applied_version, facts, body)
SELECT * FROM unnest(%s::integer[], %s::text[], %s::text[], %s::text[], %s::boolean[], %s::numeric[],
    %s::integer[], %s::integer[], %b::bytea[], %b::bytea[])
ON CONFLICT (number) DO UPDATE SET
    franchise_id = excluded.franchise_id, provider_id = excluded.provider_id, removed = excluded.removed,
    rev = excluded.rev, latest_version = excluded.latest_version, facts = excluded.facts, body = excluded.body

-- name: FACTS
SELECT latest_version, facts FROM shops WHERE id = %s

-- name: BILLS
SELECT bills.shop, bills.id, bills.trading_day, bills.rev, bills.digest, bills.withheld, bills.bill_day
FROM unnest(%b::text[], %b::text[]) AS asked (shop_id, id)
JOIN shops ON shops.id = asked.shop_id
JOIN bills ON bills.shop = shops.number AND bills.id = asked.id

-- name: BODIES
SELECT bills.shop, bills.id, bills.body FROM unnest(%s::integer[], %s::text[]) AS asked (shop, id)
JOIN bills ON bills.shop = asked.shop AND bills.id = asked.id

-- name: ADD_BILLS
INSERT INTO bills
    (shop, id, bill_day, closed_at, updated_at, trading_day, rev, facts_version, digest, seal, withheld, body,
    loaded_at)
{rows}

-- name: PUT_BILLS
{ADD_BILLS}
ON CONFLICT (shop, id) DO UPDATE SET
    bill_day = excluded.bill_day, closed_at = excluded.closed_at, updated_at = excluded.updated_at,
    trading_day = excluded.trading_day, rev = excluded.rev, facts_version = excluded.facts_version,
    digest = excluded.digest, seal = excluded.seal, withheld = excluded.withheld, body = excluded.body,
    loaded_at = excluded.loaded_at

-- name: BILL_ARRAYS
SELECT * FROM unnest(%b::integer[], %b::text[], %b::integer[], %b::bigint[], %b::bigint[], %b::text[],
    %b::text[]::numeric[], %b::integer[], %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[], %b::bigint[])

-- name: SETTLE_BILLS
UPDATE bills SET trading_day = asked.trading_day, rev = asked.rev, withheld = asked.withheld
FROM unnest(%s::integer[], %s::text[], %s::text[], %s::numeric[], %s::bytea[])
    AS asked (shop, id, trading_day, rev, withheld)
WHERE bills.shop = asked.shop AND bills.id = asked.id

-- name: REMOVE_BILLS
DELETE FROM bills USING unnest(%s::integer[], %s::text[]) AS asked (shop, id)
WHERE bills.shop = asked.shop AND bills.id = asked.id

-- name: TO_REWRITE
SELECT number, latest_version, facts FROM shops WHERE applied_version < latest_version LIMIT 1

-- name: OUTDATED_BILLS
SELECT id, closed_at, updated_at, trading_day, rev, withheld, body, bill_day FROM bills
WHERE shop = %s AND id > %s AND facts_version < %s ORDER BY id LIMIT %s

-- name: SETTLE_FACTS
UPDATE bills SET facts_version = asked.version, trading_day = asked.trading_day, withheld = asked.withheld
FROM unnest(%s::integer[], %s::text[], %s::integer[], %s::text[], %s::bytea[])
    AS asked (shop, id, version, trading_day, withheld)
WHERE bills.shop = asked.shop AND bills.id = asked.id

-- name: REWRITTEN
UPDATE shops SET applied_version = %s WHERE number = %s

-- name: BASES
SELECT id, rev, body FROM bases WHERE id = ANY(%s)

-- name: PUT_BASES
INSERT INTO bases (id, rev, body) SELECT * FROM unnest(%s::text[], %s::numeric[], %b::bytea[])
ON CONFLICT (id) DO UPDATE SET rev = excluded.rev, body = excluded.body

-- name: MEMBERS
SELECT provider_id, token, rev, record, form FROM members WHERE token = ANY(%s)

-- name: PUT_MEMBERS
INSERT INTO members (provider_id, token, created_at, rev, record, form)
{rows}
ON CONFLICT (provider_id, token) DO UPDATE SET
    created_at = excluded.created_at, rev = excluded.rev, record = excluded.record, form = excluded.form

-- name: MEMBER_ARRAYS
SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::numeric[], %b::bytea[], %b::bytea[])

-- name: REMOVE_MEMBERS
DELETE FROM members USING unnest(%s::text[], %s::text[]) AS asked (provider_id, token)
WHERE members.provider_id = asked.provider_id AND members.token = asked.token

-- name: REMOVE_ACCOUNTS
DELETE FROM accounts USING unnest(%s::text[], %s::text[]) AS asked (provider_id, token)
WHERE accounts.provider_id = asked.provider_id AND accounts.token = asked.token

-- name: ADD_ACCOUNTS
INSERT INTO accounts (provider_id, token, place, hash, created_at, channel) {rows}

-- name: ACCOUNT_ARRAYS
SELECT * FROM unnest(%s::text[], %s::text[], %s::integer[], %s::text[], %s::bigint[], %s::text[])

-- name: REMOVALS
SELECT removals.* FROM unnest(%s::text[], %s::text[], %s::text[]) AS asked (shop, kind, id)
JOIN removals USING (shop, kind, id)

-- name: REMEMBER_REMOVALS
INSERT INTO removals (shop, kind, id, rev) SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::numeric[])
ON CONFLICT (shop, kind, id) DO UPDATE SET rev = excluded.rev

-- name: BEGIN_LOAD
INSERT INTO loads (number, source, started_at, seen_at)
SELECT coalesce(max(number), 0) + 1, %(source)s, %(now)s, %(now)s FROM loads RETURNING number

-- name: SAVE_LOAD
UPDATE loads SET seen_at = %s, lines = %s, changed = %s, rejected = %s, finished_at = %s, reasons = %s,
    rejects_file = %s, totals = %s
WHERE number = %s

-- name: STOP_LOAD
-- The negative sign marks the load as stopped: see `decode_seen_at`.
UPDATE loads SET seen_at = -coalesce(%s, {CLOCK}), changed = %s WHERE number = %s AND finished_at IS NULL

-- name: REMEMBER_REJECT
INSERT INTO rejected_lines (load, place, source, line, reason, fields) VALUES (%s, %s, %s, %s, %s, %s)

-- name: FORGET_LOADS
DELETE FROM loads WHERE number <= %s - 100

-- name: FORGET_REJECTS
DELETE FROM rejected_lines WHERE load <= %s - 100

-- name: INTAKE
SELECT state FROM intake

-- name: PUT_INTAKE
INSERT INTO intake (one, state) VALUES (1, %b) ON CONFLICT (one) DO UPDATE SET state = excluded.state

-- name: REPORT_WATCHED_FOLDER
INSERT INTO watched_folders (name, seen_at, delivered_at, files, quarantined, stopped)
VALUES (%(name)s, %(now)s, %(now)s, %(files)s, %(quarantined)s, %(stopped)s)
ON CONFLICT (name) DO UPDATE SET
    seen_at = excluded.seen_at,
    delivered_at = CASE
        WHEN excluded.files + excluded.quarantined > 0 THEN excluded.delivered_at ELSE watched_folders.delivered_at
    END,
    files = watched_folders.files + excluded.files,
    quarantined = watched_folders.quarantined + excluded.quarantined,
    stopped = excluded.stopped

-- name: SET_FINGERPRINT
INSERT INTO deployment (one, secret_fingerprint) VALUES (1, %s) ON CONFLICT DO NOTHING
