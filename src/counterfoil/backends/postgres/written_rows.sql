-- name: RELIST
INSERT INTO shop_changes (shop, franchise_id, joined_at, listed_at, latest_at)
SELECT number, franchise_id, %(stamp)s, %(stamp)s, %(stamp)s
FROM unnest(%(numbers)s::integer[], %(franchises)s::text[]) AS relisted (number, franchise_id)
ON CONFLICT (shop) DO UPDATE SET
    joined_at = CASE
        WHEN shop_changes.franchise_id IS NOT DISTINCT FROM excluded.franchise_id THEN shop_changes.joined_at
        ELSE excluded.joined_at
    END,
    franchise_id = excluded.franchise_id, listed_at = excluded.listed_at, latest_at = excluded.latest_at

-- name: TOUCH
UPDATE shop_changes SET latest_at = %s WHERE shop = ANY(%s)

-- name: DEPART
INSERT INTO departures (franchise_id, shop, left_at)
SELECT franchise_id, shop, %s FROM unnest(%s::text[], %s::integer[]) AS gone (franchise_id, shop)
ON CONFLICT (franchise_id, shop) DO UPDATE SET left_at = excluded.left_at

-- name: REMOVE
INSERT INTO removed_bills (shop, id, removed_at)
SELECT shop, id, %s FROM unnest(%s::integer[], %s::text[]) AS gone (shop, id)
ON CONFLICT (shop, id) DO UPDATE SET removed_at = excluded.removed_at

-- name: PRUNE
WITH deleted AS (DELETE FROM removed_bills WHERE removed_at <= (SELECT at FROM horizon) - %(kept)s RETURNING 1),
raised AS (
    INSERT INTO feed (one, oldest)
    SELECT 1, horizon.at - %(kept)s FROM horizon WHERE EXISTS (SELECT 1 FROM deleted)
    ON CONFLICT (one) DO UPDATE SET oldest = greatest(feed.oldest, excluded.oldest)
)
SELECT count(*) FROM deleted

-- name: MARK_STALE
INSERT INTO day_totals (shop, bill_day) SELECT * FROM unnest(%s::integer[], %s::integer[])
ON CONFLICT (shop, bill_day) DO UPDATE SET stale = 1

-- name: STALE
SELECT shop, bill_day FROM day_totals WHERE stale = 1 LIMIT %s

-- name: BILLS
SELECT updated_at, body FROM bills WHERE shop = %s AND bill_day = %s

-- name: STORE
UPDATE day_totals SET stale = 0, bills = %s, voids = %s, net = %s, tip = %s, latest = %s, hash = %s
WHERE shop = %s AND bill_day = %s

-- name: DELETE
DELETE FROM day_totals WHERE shop = %s AND bill_day = %s
