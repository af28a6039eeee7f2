-- name: LATEST_ENTRIES
SELECT {COLUMNS} FROM audit
WHERE at >= :since AND (CAST(:key_id AS text) IS NULL OR key_id = :key_id)
ORDER BY at DESC, {origin} number DESC LIMIT :most

-- name: KEYS
SELECT body FROM keys

-- name: SHOP_BODIES
SELECT body FROM shops WHERE NOT removed

-- name: BILLS_PER_DAY
-- Bills of a stale day are counted directly, because the stored total is out of date.
SELECT * FROM (
    SELECT id, bill_day, CASE WHEN stale = 0 THEN day_totals.bills ELSE
        (SELECT count(*) FROM bills WHERE bills.shop = day_totals.shop AND bills.bill_day = day_totals.bill_day)
    END AS counted
    FROM shops JOIN day_totals ON shop = number
    WHERE bill_day BETWEEN :first AND :last
) AS days WHERE counted > 0 ORDER BY id, bill_day

-- name: ERRORS_IN_DAYS
SELECT key_id, day, error, count FROM daily_errors WHERE day BETWEEN :first AND :last

-- name: HOURS
SELECT at / {HOUR_MS}, count(*) FROM requests INDEXED BY requests_by_key
WHERE key_id = :key_id AND at >= :since GROUP BY 1

-- name: FAILED_HOURS
SELECT at / {HOUR_MS}, count(*) FROM requests INDEXED BY requests_failed
WHERE key_id = :key_id AND at >= :since AND error IS NOT NULL GROUP BY 1

-- name: ERRORS
SELECT error, route, count(*), max(at) FROM requests INDEXED BY requests_failed
WHERE at >= :since AND error IS NOT NULL AND (CAST(:key_id AS text) IS NULL OR key_id = :key_id)
GROUP BY error, route

-- name: LATEST_BY_KEY
-- Each step of the recursion jumps to the next key in the index, so the cost depends only on the number of keys.
WITH RECURSIVE used (key_id) AS (
    SELECT min(key_id) FROM requests INDEXED BY {index} WHERE {part}
    UNION ALL
    SELECT (SELECT min(key_id) FROM requests INDEXED BY {index} WHERE key_id > used.key_id AND {part})
    FROM used WHERE used.key_id IS NOT NULL
)
SELECT key_id, (SELECT max(at) FROM requests INDEXED BY {index} WHERE key_id = used.key_id AND {part})
FROM used WHERE key_id IS NOT NULL

-- name: COPIES
SELECT lineage, list_name, shop_id, server_time, ended_at, continued_at, covered FROM passes
WHERE {condition} ORDER BY lineage, list_name, shop_id

-- name: LOADS
SELECT number, source, started_at, seen_at, finished_at, lines, changed, rejected, reasons, rejects_file
FROM loads ORDER BY number DESC LIMIT :most

-- name: TOTALS
SELECT totals FROM loads WHERE number = :load

-- name: REJECTS
SELECT source, line, reason, fields FROM rejected_lines WHERE load = :load ORDER BY place LIMIT :most

-- name: FACTS
SELECT latest_version, facts FROM shops WHERE id = :id

-- name: HORIZON
SELECT at FROM horizon

-- name: LATEST_LOAD
SELECT lines, changed, rejected, finished_at, seen_at FROM loads ORDER BY number DESC LIMIT 1

-- name: INTAKE
SELECT state FROM intake

-- name: WATCHED_FOLDERS
SELECT name, seen_at, delivered_at, files, quarantined, stopped FROM watched_folders
WHERE seen_at > :since ORDER BY name

-- name: SHOPS
SELECT number, facts, body FROM shops WHERE NOT removed

-- name: ALL_BILLS
SELECT count(*) FROM bills INDEXED BY bills_by_day WHERE shop = :shop

-- name: FIRST_BILL
SELECT closed_at FROM bills WHERE shop = :shop AND closed_at > 0 ORDER BY bill_day, closed_at LIMIT 1

-- name: LAST_BILL
SELECT closed_at FROM bills WHERE shop = :shop AND closed_at <= :now ORDER BY bill_day DESC, closed_at DESC LIMIT 1

-- name: BILLS_BETWEEN
SELECT count(*) FROM bills
WHERE shop = :shop AND bill_day BETWEEN :first_day AND :last_day AND closed_at > :after AND closed_at <= :until
