-- name: HORIZON
SELECT at FROM horizon

-- name: SET_HORIZON
UPDATE horizon SET at = ?

-- name: LAST_SHOP
SELECT coalesce(max(number), 0) FROM shops

-- name: SHOPS
WITH asked (id) AS (VALUES {keys})
SELECT number, id, franchise_id, provider_id, removed, rev, latest_version, applied_version, facts, body
FROM asked CROSS JOIN shops USING (id)

-- name: PUT_SHOP
INSERT INTO shops
    (number, id, franchise_id, provider_id, removed, rev, next_bill, latest_version, applied_version, facts, body)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7, ?8, ?9, ?10)
ON CONFLICT (number) DO UPDATE SET
    franchise_id = excluded.franchise_id, provider_id = excluded.provider_id, removed = excluded.removed,
    rev = excluded.rev, latest_version = excluded.latest_version, facts = excluded.facts, body = excluded.body

-- name: FACTS
SELECT latest_version, facts FROM shops WHERE id = ?

-- name: NEXT_BILLS
WITH asked (number) AS (VALUES {keys}) SELECT number, next_bill FROM asked CROSS JOIN shops USING (number)

-- name: SET_NEXT_BILL
UPDATE shops SET next_bill = ?2 WHERE number = ?1

-- name: BILLS
WITH asked (shop, id) AS (VALUES {keys})
SELECT shop, id, trading_day, rev, digest, withheld, bill_day FROM asked CROSS JOIN bills USING (shop, id)

-- name: BODIES
WITH asked (shop, id) AS (VALUES {keys}) SELECT shop, id, body FROM asked CROSS JOIN bills USING (shop, id)

-- name: ADD_BILL
-- Four of the parameters are "" instead of None: see `_new_bills`.
INSERT INTO bills
    (number, shop, id, bill_day, closed_at, updated_at, trading_day, rev, facts_version, digest, seal, withheld,
    body, loaded_at)
VALUES (?, ?, ?, ?, ?, nullif(?, ''), nullif(?, ''), nullif(?, ''), ?, ?, ?, nullif(?, ''), ?, ?)

-- name: CHANGE_BILL
UPDATE bills SET bill_day = ?3, closed_at = ?4, updated_at = ?5, trading_day = ?6, rev = ?7, facts_version = ?8,
    digest = ?9, seal = ?10, withheld = ?11, body = ?12, loaded_at = ?13
WHERE shop = ?1 AND id = ?2

-- name: SETTLE_BILL
UPDATE bills SET trading_day = ?3, rev = ?4, withheld = ?5 WHERE shop = ?1 AND id = ?2

-- name: SETTLE_FACTS
UPDATE bills SET facts_version = ?3, trading_day = ?4, withheld = ?5 WHERE shop = ?1 AND id = ?2

-- name: REMOVE_BILL
DELETE FROM bills WHERE shop = ? AND id = ?

-- name: TO_REWRITE
SELECT number, latest_version, facts FROM shops WHERE applied_version < latest_version LIMIT 1

-- name: OUTDATED_BILLS
SELECT number, closed_at, updated_at, trading_day, rev, withheld, body, bill_day FROM bills
WHERE number BETWEEN ? AND ? AND facts_version < ? ORDER BY number LIMIT ?

-- name: REWRITTEN
UPDATE shops SET applied_version = ? WHERE number = ?

-- name: BASES
WITH asked (id) AS (VALUES {keys}) SELECT id, rev, body FROM asked CROSS JOIN bases USING (id)

-- name: PUT_BASE
INSERT OR REPLACE INTO bases (id, rev, body) VALUES (?, ?, ?)

-- name: MEMBERS
WITH asked (token) AS (VALUES {keys})
SELECT provider_id, token, rev, record, form FROM asked CROSS JOIN members USING (token)

-- name: PUT_MEMBER
INSERT INTO members (provider_id, token, created_at, rev, record, form) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (token) DO UPDATE SET
    provider_id = excluded.provider_id, created_at = excluded.created_at, rev = excluded.rev,
    record = excluded.record, form = excluded.form

-- name: REMOVE_MEMBER
DELETE FROM members WHERE provider_id = ? AND token = ?

-- name: ADD_ACCOUNT
INSERT INTO accounts (provider_id, hash, created_at, token, channel) VALUES (?1, ?4, ?5, ?2, ?6)

-- name: REMOVE_ACCOUNTS
DELETE FROM accounts WHERE token = ?2

-- name: REMOVALS
WITH asked (shop, kind, id) AS (VALUES {keys})
SELECT shop, kind, id, rev FROM asked CROSS JOIN removals USING (shop, kind, id)

-- name: REMEMBER_REMOVAL
INSERT OR REPLACE INTO removals (shop, kind, id, rev) VALUES (?, ?, ?, ?)

-- name: BEGIN_LOAD
INSERT INTO loads (source, started_at, seen_at) VALUES (?, ?, ?)

-- name: STOP_LOAD
-- The negative sign marks the load as stopped: see `decode_seen_at`.
UPDATE loads SET seen_at = -?, changed = ? WHERE number = ? AND finished_at IS NULL

-- name: SAVE_LOAD
UPDATE loads SET seen_at = ?, lines = ?, changed = ?, rejected = ?, finished_at = ?, reasons = ?, rejects_file = ?,
    totals = ?
WHERE number = ?

-- name: REMEMBER_REJECT
INSERT INTO rejected_lines (load, place, source, line, reason, fields) VALUES (?, ?, ?, ?, ?, ?)

-- name: FORGET_LOADS
DELETE FROM loads WHERE number <= ? - 100

-- name: FORGET_REJECTS
DELETE FROM rejected_lines WHERE load <= ? - 100

-- name: INTAKE
SELECT state FROM intake

-- name: PUT_INTAKE
INSERT OR REPLACE INTO intake (one, state) VALUES (1, ?)

-- name: REPORT_WATCHED_FOLDER
INSERT INTO watched_folders (name, seen_at, delivered_at, files, quarantined, stopped)
VALUES (:name, :now, :now, :files, :quarantined, :stopped)
ON CONFLICT (name) DO UPDATE SET
    seen_at = :now, delivered_at = iif(:files + :quarantined > 0, :now, delivered_at),
    files = files + :files, quarantined = quarantined + :quarantined, stopped = :stopped

-- name: FINGERPRINT
SELECT secret_fingerprint FROM deployment

-- name: SET_FINGERPRINT
INSERT INTO deployment (one, secret_fingerprint) VALUES (1, ?)
