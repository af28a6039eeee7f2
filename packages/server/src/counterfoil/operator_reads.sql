-- The statements of operator_reads.py, for SQLite and PostgreSQL. `$$name` is replaced when the file is read, and
-- `{name}` by each use.

-- name: latest_entries
SELECT $audit_columns FROM audit
WHERE at >= :since AND (CAST(:key_id AS text) IS NULL OR key_id = :key_id)
ORDER BY at DESC, {origin} number DESC LIMIT :most

-- name: store_since
SELECT coalesce(max(CASE WHEN act IN ('store_created', 'store_moved') THEN at END), min(at)) FROM audit

-- name: backups
SELECT at, {place} FROM audit WHERE act = 'store_backed_up' AND at >= :since ORDER BY at DESC LIMIT 100

-- name: bills_per_day
-- Bills of a stale day are counted directly, because the stored total is out of date.
SELECT * FROM (
    SELECT id, bill_day, CASE WHEN stale = 0 THEN day_totals.bills ELSE
        (SELECT count(*) FROM bills WHERE bills.shop = day_totals.shop AND bills.bill_day = day_totals.bill_day)
    END AS counted
    FROM shops JOIN day_totals ON shop = number
    WHERE bill_day BETWEEN :first AND :last
) AS days WHERE counted > 0 ORDER BY id, bill_day

-- name: errors_in_days
SELECT key_id, day, error, count FROM daily_errors WHERE day BETWEEN :first AND :last

-- name: hours
SELECT at / $hour_ms, count(*) FROM requests INDEXED BY {index}
WHERE {condition} AND at >= :since AND at < :until GROUP BY 1

-- name: latencies
-- A percentile is the smallest duration that so many of the requests did not exceed.
WITH newest AS (
    SELECT (at + $thai_offset) / :slot AS slot, took_us FROM requests INDEXED BY {index}
    WHERE {condition} AND at >= :since ORDER BY at DESC LIMIT $measured
), placed AS (
    SELECT slot, took_us, row_number() OVER (PARTITION BY slot ORDER BY took_us) AS place,
        count(*) OVER (PARTITION BY slot) AS requests
    FROM newest
)
SELECT slot, requests, max(CASE WHEN place = (requests + 1) / 2 THEN took_us END),
    max(CASE WHEN place = (requests * 95 + 99) / 100 THEN took_us END)
FROM placed GROUP BY slot, requests ORDER BY slot

-- name: errors
SELECT error, route, count(*), max(at) FROM requests INDEXED BY requests_failed
WHERE at >= :since AND error IS NOT NULL AND (CAST(:key_id AS text) IS NULL OR key_id = :key_id)
GROUP BY error, route

-- name: latest_by_key
-- Each step of the recursion jumps to the next key in the index, so the cost depends only on the number of keys.
WITH RECURSIVE used (key_id) AS (
    SELECT min(key_id) FROM requests INDEXED BY {index} WHERE {part}
    UNION ALL
    SELECT (SELECT min(key_id) FROM requests INDEXED BY {index} WHERE key_id > used.key_id AND {part})
    FROM used WHERE used.key_id IS NOT NULL
)
SELECT key_id, (SELECT max(at) FROM requests INDEXED BY {index} WHERE key_id = used.key_id AND {part})
FROM used WHERE key_id IS NOT NULL

-- name: copies
SELECT lineage, list_name, shop_id, server_time, ended_at, continued_at, covered FROM passes
ORDER BY lineage, list_name, shop_id

-- name: unfinished
-- A load has not finished, nor was its source loaded again, nor is there an item about it.
finished_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM loads AS later WHERE later.number > loads.number AND later.source = loads.source)
    AND NOT EXISTS (SELECT 1 FROM open_items WHERE load = loads.number AND kind IN ('quarantined', 'needs_answers', 'unfinished'))

-- name: loads
SELECT number, source, started_at, seen_at, finished_at, lines, changed, rejected, reasons, rejects_file,
    files, alarms,
    EXISTS (SELECT 1 FROM open_items WHERE load = loads.number AND closed_by = 'accepted') AS is_accepted,
    horizon, undone_at
FROM loads ORDER BY number DESC LIMIT :most

-- name: rejects
SELECT source, line, reason, fields FROM rejected_lines WHERE load = :load ORDER BY place LIMIT :most

-- name: open_items
SELECT $item_columns FROM open_items WHERE closed_at IS NULL ORDER BY number

-- name: item
SELECT $item_columns FROM open_items WHERE identity = :identity

-- name: known_shop
SELECT 1 FROM shops WHERE id = :id AND NOT removed

-- name: known_franchise
SELECT 1 FROM shops WHERE franchise_id = :id AND NOT removed LIMIT 1

-- name: stored_bills
SELECT bills.id, bills.rev, bills.digest, bills.load, bills.body FROM shops JOIN bills ON bills.shop = shops.number
WHERE shops.id = :shop AND bills.id IN ($bill_ids)

-- name: undone_loads
SELECT number FROM loads WHERE undone_at IS NOT NULL

-- name: shops_changed
SELECT number, id, shops.franchise_id FROM shop_changes JOIN shops ON number = shop
WHERE latest_at > :since ORDER BY number

-- name: tracked_bills_of_load
-- All bills of a load have a stamp above the horizon at which it began.
SELECT id, load, load_before, confirmed_by, body, updated_at FROM bills INDEXED BY bills_by_change
WHERE shop = :shop AND updated_at >= :at AND (updated_at, id) > (:at, :after)
    AND (load IN (:load, :undone) OR load_before = :load)
ORDER BY updated_at, id LIMIT :most

-- name: untracked_bills_of_load
SELECT id, load, load_before, confirmed_by, body, loaded_at FROM bills INDEXED BY bills_untracked
WHERE shop = :shop AND updated_at IS NULL AND loaded_at >= :at AND (loaded_at, id) > (:at, :after)
    AND (load IN (:load, :undone) OR load_before = :load)
ORDER BY loaded_at, id LIMIT :most

-- name: removed_by_load
SELECT shop, id FROM removed_bills INDEXED BY removed_bills_by_time WHERE removed_at > :since AND load = :load

-- name: which_bills
SELECT id FROM bills WHERE shop = :shop AND id IN ($bill_ids)

-- name: lists_read
SELECT DISTINCT detail FROM requests INDEXED BY requests_by_key
WHERE key_id = :key_id AND at >= :since AND status = 200 AND route IN ('transactions', 'transactions/{id}')

-- name: bills_of_day
SELECT bills.body FROM shops JOIN bills ON bills.shop = shops.number WHERE shops.id = :shop AND bills.bill_day = :day

-- name: watched_folders
SELECT name, seen_at, delivered_at, files, quarantined, stopped, problem FROM watched_folders
WHERE seen_at > :since ORDER BY name

-- name: total_bills
SELECT count(*) FROM bills INDEXED BY bills_by_day WHERE shop = :shop

-- name: loaded_shops
SELECT number, facts, body FROM shops WHERE NOT removed ORDER BY id

-- name: latest_closings
SELECT closed_at FROM bills INDEXED BY bills_by_day WHERE shop = :shop AND closed_at IS NOT NULL
ORDER BY bill_day DESC, closed_at DESC LIMIT :most

-- name: without_business_day_bills
SELECT count(*) FROM (SELECT 1 FROM bills INDEXED BY bills_by_day
    WHERE shop = :shop AND trading_day IS NULL LIMIT :most) AS found

-- name: between_bills
SELECT count(*) FROM bills
WHERE shop = :shop AND bill_day BETWEEN :first_day AND :last_day AND closed_at > :after AND closed_at <= :until

-- name: first_bills
SELECT closed_at FROM bills
WHERE shop = :shop AND bill_day >= :first_day AND closed_at > :after ORDER BY bill_day, closed_at LIMIT 1

-- name: last_bills
SELECT closed_at FROM bills
WHERE shop = :shop AND closed_at <= :until ORDER BY bill_day DESC, closed_at DESC LIMIT 1
