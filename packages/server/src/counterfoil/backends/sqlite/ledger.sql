-- The statements of ledger.py. `{keys}` are the keys of the rows that are looked up at once.

-- name: horizon
SELECT at FROM horizon

-- name: set_horizon
UPDATE horizon SET at = ?

-- name: last_shop
SELECT coalesce(max(number), 0) FROM shops

-- name: shops
WITH asked (id) AS (VALUES {keys})
SELECT number, id, franchise_id, provider_id, removed, rev, latest_version, applied_version, facts, body
FROM asked CROSS JOIN shops USING (id)

-- name: put_shop
INSERT INTO shops
    (number, id, franchise_id, provider_id, removed, rev, next_bill, latest_version, applied_version, facts, body)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7, ?8, ?9, ?10)
ON CONFLICT (number) DO UPDATE SET
    franchise_id = excluded.franchise_id, provider_id = excluded.provider_id, removed = excluded.removed,
    rev = excluded.rev, latest_version = excluded.latest_version, facts = excluded.facts, body = excluded.body

-- name: next_bills
WITH asked (number) AS (VALUES {keys}) SELECT number, next_bill FROM asked CROSS JOIN shops USING (number)

-- name: set_next_bill
UPDATE shops SET next_bill = ?2 WHERE number = ?1

-- name: bills
WITH asked (shop, id) AS (VALUES {keys})
SELECT shop, id, trading_day, rev, digest, withheld, bill_day, load, confirmed_by FROM asked CROSS JOIN bills USING (shop, id)

-- name: bodies
WITH asked (shop, id) AS (VALUES {keys}) SELECT shop, id, body FROM asked CROSS JOIN bills USING (shop, id)

-- name: add_bill
INSERT INTO bills
    (number, shop, id, bill_day, closed_at, updated_at, trading_day, rev, facts_version, digest, seal, withheld,
    body, loaded_at, load)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: change_bill
-- Without a load, the bill is rewritten under the facts of its shop, so it stays the bill of its load.
UPDATE bills SET bill_day = ?3, closed_at = ?4, updated_at = ?5, trading_day = ?6, rev = ?7, facts_version = ?8,
    digest = ?9, seal = ?10, withheld = ?11, body = ?12, loaded_at = ?13, load = coalesce(?14, load),
    load_before = CASE WHEN ?14 IS NULL OR ?14 = load THEN load_before ELSE coalesce(load, 0) END,
    confirmed_by = CASE WHEN ?14 IS NULL THEN confirmed_by END
WHERE shop = ?1 AND id = ?2

-- name: settle_bill
UPDATE bills SET trading_day = ?3, rev = ?4, withheld = ?5, confirmed_by = ?6 WHERE shop = ?1 AND id = ?2

-- name: settle_facts
UPDATE bills SET facts_version = ?3, trading_day = ?4, withheld = ?5 WHERE shop = ?1 AND id = ?2

-- name: remove_bill
DELETE FROM bills WHERE shop = ? AND id = ?

-- name: bases
WITH asked (id) AS (VALUES {keys}) SELECT id, rev, body FROM asked CROSS JOIN bases USING (id)

-- name: members
WITH asked (token) AS (VALUES {keys})
SELECT provider_id, token, rev, record, form FROM asked CROSS JOIN members USING (token)

-- name: put_member
INSERT INTO members (provider_id, token, created_at, rev, record, form) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (token) DO UPDATE SET
    provider_id = excluded.provider_id, created_at = excluded.created_at, rev = excluded.rev,
    record = excluded.record, form = excluded.form

-- name: remove_member
DELETE FROM members WHERE provider_id = ? AND token = ?

-- name: add_account
INSERT INTO accounts (provider_id, hash, created_at, token, channel) VALUES (?1, ?4, ?5, ?2, ?6)

-- name: remove_accounts
DELETE FROM accounts WHERE token = ?2

-- name: removals
WITH asked (shop, kind, id) AS (VALUES {keys})
SELECT shop, kind, id, rev FROM asked CROSS JOIN removals USING (shop, kind, id)

-- name: fingerprint
SELECT secret_fingerprint FROM deployment

-- name: set_fingerprint
INSERT INTO deployment (one, secret_fingerprint) VALUES (1, ?)
