-- The statements of ledger.py, and in place of three of them those of citus.py for the bills of one shop. `{rows}` are
-- arrays of the columns' values, and on Citus VALUES.

-- name: shops
SELECT number, id, franchise_id, provider_id, removed, rev, latest_version, applied_version, facts, body
FROM shops WHERE id = ANY(%s)

-- name: put_shops
INSERT INTO shops (number, id, franchise_id, provider_id, removed, rev, latest_version, applied_version, facts, body)
SELECT * FROM unnest(%s::integer[], %s::text[], %s::text[], %s::text[], %s::boolean[], %s::numeric[],
    %s::integer[], %s::integer[], %b::bytea[], %b::bytea[])
ON CONFLICT (number) DO UPDATE SET
    franchise_id = excluded.franchise_id, provider_id = excluded.provider_id, removed = excluded.removed,
    rev = excluded.rev, latest_version = excluded.latest_version, facts = excluded.facts, body = excluded.body

-- name: bills
SELECT bills.shop, bills.id, bills.trading_day, bills.rev, bills.digest, bills.withheld, bills.bill_day, bills.load,
    bills.confirmed_by
FROM unnest(%s::text[], %s::text[]) AS asked (shop_id, id)
JOIN shops ON shops.id = asked.shop_id
JOIN bills ON bills.shop = shops.number AND bills.id = asked.id

-- name: bodies
SELECT bills.shop, bills.id, bills.body FROM unnest(%s::integer[], %s::text[]) AS asked (shop, id)
JOIN bills ON bills.shop = asked.shop AND bills.id = asked.id

-- name: bill_arrays
SELECT * FROM unnest(%s::integer[], %s::text[], %s::integer[], %s::bigint[], %s::bigint[], %s::text[],
    %s::numeric[], %s::integer[], %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[], %s::bigint[], %s::integer[])

-- name: add_bills
INSERT INTO bills
    (shop, id, bill_day, closed_at, updated_at, trading_day, rev, facts_version, digest, seal, withheld, body, loaded_at,
    load)
{rows}

-- name: put_bills
-- Without a load, the bill is rewritten under the facts of its shop, so it stays the bill of its load.
INSERT INTO bills
    (shop, id, bill_day, closed_at, updated_at, trading_day, rev, facts_version, digest, seal, withheld, body, loaded_at,
    load)
{rows}
ON CONFLICT (shop, id) DO UPDATE SET
    bill_day = excluded.bill_day, closed_at = excluded.closed_at, updated_at = excluded.updated_at,
    trading_day = excluded.trading_day, rev = excluded.rev, facts_version = excluded.facts_version,
    digest = excluded.digest, seal = excluded.seal, withheld = excluded.withheld, body = excluded.body,
    loaded_at = excluded.loaded_at, load = coalesce(excluded.load, bills.load),
    load_before = CASE
        WHEN excluded.load IS NULL OR excluded.load = bills.load THEN bills.load_before ELSE coalesce(bills.load, 0)
    END,
    confirmed_by = CASE WHEN excluded.load IS NULL THEN bills.confirmed_by END

-- name: settle_bills
UPDATE bills SET trading_day = asked.trading_day, rev = asked.rev, withheld = asked.withheld,
    confirmed_by = asked.confirmed_by
FROM unnest(%s::integer[], %s::text[], %s::text[], %s::numeric[], %s::bytea[], %s::integer[])
    AS asked (shop, id, trading_day, rev, withheld, confirmed_by)
WHERE bills.shop = asked.shop AND bills.id = asked.id

-- name: settle_bills_of_shop
UPDATE bills SET trading_day = asked.trading_day, rev = asked.rev, withheld = asked.withheld,
    confirmed_by = asked.confirmed_by
FROM unnest(%s::text[], %s::text[], %s::numeric[], %s::bytea[], %s::integer[])
    AS asked (id, trading_day, rev, withheld, confirmed_by)
WHERE bills.id = asked.id AND bills.shop = %s

-- name: settle_facts
UPDATE bills SET facts_version = asked.version, trading_day = asked.trading_day, withheld = asked.withheld
FROM unnest(%s::integer[], %s::text[], %s::integer[], %s::text[], %s::bytea[])
    AS asked (shop, id, version, trading_day, withheld)
WHERE bills.shop = asked.shop AND bills.id = asked.id

-- name: settle_facts_of_shop
UPDATE bills SET facts_version = asked.version, trading_day = asked.trading_day, withheld = asked.withheld
FROM unnest(%s::text[], %s::integer[], %s::text[], %s::bytea[]) AS asked (id, version, trading_day, withheld)
WHERE bills.id = asked.id AND bills.shop = %s

-- name: remove_bills
DELETE FROM bills USING unnest(%s::integer[], %s::text[]) AS asked (shop, id)
WHERE bills.shop = asked.shop AND bills.id = asked.id

-- name: remove_bills_of_shop
DELETE FROM bills WHERE id = ANY(%s) AND shop = %s

-- name: bases
SELECT id, rev, body FROM bases WHERE id = ANY(%s)

-- name: members
SELECT provider_id, token, rev, record, form FROM members WHERE token = ANY(%s)

-- name: member_arrays
SELECT * FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::numeric[], %b::bytea[], %b::bytea[])

-- name: put_members
INSERT INTO members (provider_id, token, created_at, rev, record, form)
{rows}
ON CONFLICT (provider_id, token) DO UPDATE SET
    created_at = excluded.created_at, rev = excluded.rev, record = excluded.record, form = excluded.form

-- name: remove_members
DELETE FROM members USING unnest(%s::text[], %s::text[]) AS asked (provider_id, token)
WHERE members.provider_id = asked.provider_id AND members.token = asked.token

-- name: account_arrays
SELECT * FROM unnest(%s::text[], %s::text[], %s::integer[], %s::text[], %s::bigint[], %s::text[])

-- name: add_accounts
INSERT INTO accounts (provider_id, token, place, hash, created_at, channel)
{rows}

-- name: remove_accounts
DELETE FROM accounts USING unnest(%s::text[], %s::text[]) AS asked (provider_id, token)
WHERE accounts.provider_id = asked.provider_id AND accounts.token = asked.token

-- name: removals
SELECT removals.* FROM unnest(%s::text[], %s::text[], %s::text[]) AS asked (shop, kind, id)
JOIN removals USING (shop, kind, id)
