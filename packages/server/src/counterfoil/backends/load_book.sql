-- The statements of load_book.py, written for SQLite. `$$name` is replaced when the file is read, and `{name}` by
-- each use.

-- name: remember_removal
INSERT INTO removals (shop, kind, id, rev) VALUES (:shop, :kind, :id, :rev)
ON CONFLICT (shop, kind, id) DO UPDATE SET rev = excluded.rev

-- name: put_base
INSERT INTO bases (id, rev, body) VALUES (:id, :rev, :body)
ON CONFLICT (id) DO UPDATE SET rev = excluded.rev, body = excluded.body

-- name: to_rewrite
SELECT number, latest_version, facts FROM shops WHERE applied_version < latest_version LIMIT 1

-- name: outdated_bills
SELECT id, closed_at, updated_at, trading_day, rev, withheld, body, bill_day FROM bills INDEXED BY bills_by_shop
WHERE shop = :shop AND id > :after AND facts_version < :version ORDER BY id LIMIT :most

-- name: rewritten
UPDATE shops SET applied_version = :version WHERE number = :shop

-- name: relist
INSERT INTO shop_changes (shop, franchise_id, joined_at, listed_at, latest_at)
VALUES (:shop, :franchise_id, :stamp, :stamp, :stamp)
ON CONFLICT (shop) DO UPDATE SET
    joined_at = CASE
        WHEN coalesce(shop_changes.franchise_id, '') = coalesce(excluded.franchise_id, '')
        THEN shop_changes.joined_at ELSE excluded.joined_at
    END,
    franchise_id = excluded.franchise_id, listed_at = excluded.listed_at, latest_at = excluded.latest_at

-- name: touch
UPDATE shop_changes SET latest_at = :stamp WHERE shop IN ({shops})

-- name: depart
INSERT INTO departures (franchise_id, shop, left_at) VALUES (:franchise_id, :shop, :stamp)
ON CONFLICT (franchise_id, shop) DO UPDATE SET left_at = excluded.left_at

-- name: remove
INSERT INTO removed_bills (shop, id, removed_at, load) VALUES (:shop, :id, :stamp, :load)
ON CONFLICT (shop, id) DO UPDATE SET removed_at = excluded.removed_at, load = excluded.load

-- name: prune_removals
DELETE FROM removed_bills WHERE removed_at <= (SELECT at FROM horizon) - :kept

-- name: refuse_marks
-- Marks older than `kept` milliseconds are refused from now on.
INSERT INTO feed (one, oldest) SELECT 1, at - :kept FROM horizon WHERE true
ON CONFLICT (one) DO UPDATE SET oldest = excluded.oldest WHERE feed.oldest < excluded.oldest

-- name: mark_stale
INSERT INTO day_totals (shop, bill_day) VALUES {days} ON CONFLICT (shop, bill_day) DO UPDATE SET stale = 1

-- name: stale_days
SELECT shop, bill_day FROM day_totals INDEXED BY stale_days WHERE stale = 1 LIMIT :most

-- name: bills_of_day
SELECT updated_at, body FROM bills INDEXED BY bills_by_day WHERE shop = :shop AND bill_day = :day

-- name: store_total
UPDATE day_totals
SET stale = 0, bills = :bills, voids = :voids, net = :net, tip = :tip, latest = :latest, hash = :hash,
    void_net = :void_net
WHERE shop = :shop AND bill_day = :day

-- name: delete_total
DELETE FROM day_totals WHERE shop = :shop AND bill_day = :day

-- name: begin_load
INSERT INTO loads (number, source, started_at, seen_at, horizon)
SELECT coalesce(max(number), 0) + 1, :source, :now, :now, (SELECT at FROM horizon) FROM loads RETURNING number

-- name: save_load
UPDATE loads SET seen_at = :now, lines = :lines, changed = :changed, rejected = :rejected,
    finished_at = :finished_at, reasons = :reasons, rejects_file = :rejects_file, totals = :totals, files = :files,
    alarms = :alarms
WHERE number = :number

-- name: stop_load
-- The negative sign marks the load as stopped: see `load_row`.
UPDATE loads SET seen_at = -:now, changed = :changed WHERE number = :number AND finished_at IS NULL

-- name: undone_loads
SELECT number FROM loads WHERE undone_at IS NOT NULL

-- name: finish_undo
UPDATE loads SET undone_at = :now WHERE number = :number AND undone_at IS NULL

-- name: allow_removed
-- What a load removed can be loaded again, whatever its revision is.
DELETE FROM removals WHERE kind = 'bill' AND (shop, id) IN (
    SELECT shops.id, removed_bills.id FROM removed_bills INDEXED BY removed_bills_by_time
    JOIN shops ON shops.number = removed_bills.shop
    WHERE removed_at > coalesce((SELECT horizon FROM loads WHERE loads.number = :number), -1) AND load = :number
)

-- name: facts_of_number
SELECT latest_version, facts FROM shops WHERE number = :shop

-- name: bills_to_undo
SELECT id, closed_at, updated_at, trading_day, rev, withheld, body, bill_day, load_before, confirmed_by FROM bills
WHERE shop = :shop AND load = :load AND id IN ($bill_ids)

-- name: release_bills
-- The next record of such a bill replaces it, whatever its revision is.
UPDATE bills SET load = :undone, rev = NULL WHERE shop = :shop AND load = :load AND id IN ($bill_ids)

-- name: marks
SELECT mark FROM forgotten_members

-- name: count_marks
SELECT count(*) FROM forgotten_members

-- name: mark_member
INSERT INTO forgotten_members (mark, at) VALUES (:mark, :at)
ON CONFLICT (mark) DO UPDATE SET finished_at = NULL

-- name: finish_marks
UPDATE forgotten_members SET finished_at = :now WHERE mark = :mark AND finished_at IS NULL

-- name: bills_to_unlink
SELECT id, closed_at, updated_at, trading_day, rev, withheld, body, bill_day FROM bills
WHERE shop = :shop AND id IN ($bill_ids)

-- name: forget_removal
DELETE FROM removals WHERE kind = 'member' AND shop = '' AND id = :token

-- name: erase_lines
-- The decision about a held file is about its content, which is another one from now on.
UPDATE open_items SET files = :files, digest = :digest
WHERE number = :number AND closed_at IS NULL AND files = :known_files

-- name: remember_reject
INSERT INTO rejected_lines (load, place, source, line, reason, fields)
VALUES (:load, :place, :source, :line, :reason, :fields)

-- name: stalled_loads
SELECT number, source, abs(seen_at) FROM loads WHERE seen_at < :before AND $unfinished

-- name: finished_now
SELECT open_items.identity, open_items.files, loads.source FROM open_items, loads
WHERE open_items.kind = 'unfinished' AND open_items.closed_at IS NULL AND loads.number = :number

-- name: forget_loads
DELETE FROM loads WHERE number <= :number - 100

-- name: forget_rejects
DELETE FROM rejected_lines WHERE load <= :number - 100

-- name: forget_items
DELETE FROM open_items WHERE closed_at < :before

-- name: put_preview
INSERT INTO delivery_previews (identity, preview) VALUES (:identity, :preview)
ON CONFLICT (identity) DO UPDATE SET preview = excluded.preview

-- name: forget_previews
DELETE FROM delivery_previews WHERE NOT EXISTS (
    SELECT 1 FROM open_items WHERE open_items.identity = delivery_previews.identity AND open_items.closed_at IS NULL
)

-- name: put_item
-- An item is opened once. One that the operator closed during the load is opened again if more lines are rejected.
INSERT INTO open_items ($columns) SELECT $new_item FROM open_items WHERE true
ON CONFLICT (identity) DO UPDATE SET
    files = excluded.files,
    reason = CASE WHEN open_items.kind = 'rejects' THEN excluded.reason ELSE open_items.reason END,
    closed_at = CASE WHEN open_items.files = excluded.files THEN open_items.closed_at END,
    closed_by = CASE WHEN open_items.files = excluded.files THEN open_items.closed_by END

-- name: change_item
UPDATE open_items SET kind = :kind, load = CAST(:load AS bigint), path = :path, reason = :reason, decision = :decision,
    closed_at = :closed_at, closed_by = :closed_by
WHERE number = :number AND closed_at IS NULL RETURNING number

-- name: close_loaded
UPDATE open_items SET closed_at = :now, closed_by = 'loaded' WHERE identity = :identity AND closed_at IS NULL

-- name: intake
SELECT state FROM intake

-- name: put_intake
INSERT INTO intake (one, state) VALUES (1, :state) ON CONFLICT (one) DO UPDATE SET state = excluded.state

-- name: report_watched_folder
INSERT INTO watched_folders (name, seen_at, delivered_at, files, quarantined, stopped, problem)
VALUES (:name, :now, :now, :files, :quarantined, :stopped, :problem)
ON CONFLICT (name) DO UPDATE SET
    seen_at = excluded.seen_at,
    delivered_at = CASE
        WHEN excluded.files + excluded.quarantined > 0 THEN excluded.delivered_at ELSE watched_folders.delivered_at
    END,
    files = watched_folders.files + excluded.files,
    quarantined = watched_folders.quarantined + excluded.quarantined,
    stopped = excluded.stopped,
    problem = excluded.problem
