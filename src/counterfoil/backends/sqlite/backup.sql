-- name: TABLES
SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name

-- name: NEWEST_CURSOR
SELECT max(latest) FROM cursors WHERE NOT expired

-- name: NEWEST_STAMP
SELECT max((SELECT max(updated_at) FROM bills WHERE shop = shops.number)) FROM shops

-- name: HORIZON
SELECT at FROM horizon

-- name: FINGERPRINT
SELECT secret_fingerprint FROM deployment

-- name: RAISE_HORIZON
UPDATE horizon SET at = max(at + 1, ?) RETURNING at

-- name: EXPIRE_CURSORS
UPDATE cursors SET expired = 1, ends_at = ? + ?

-- name: REMEMBER
INSERT OR IGNORE INTO revocations (key_id, at) VALUES (?, ?)

-- name: DROP_GUARD
DROP TRIGGER IF EXISTS restored_cursors

-- name: GUARD
-- Clients may still hold cursors that were created after the backup, so the IDs of these cursors must not be used again.
-- Most cursors have the ID of their row. When such a cursor is first inserted, the trigger stores its ID as expired
-- instead, and the service retries with a random ID. A short random ID may have been handed out before too, so the
-- trigger skips the insert, and the service retries with a longer ID. See `_next_cursor` in reads.py.
CREATE TRIGGER restored_cursors BEFORE INSERT ON cursors
WHEN NOT NEW.expired AND NEW.ends_at < {until} + {lifetime}
    AND (
        NEW.cursor = NEW.row_id
        OR (length(NEW.row_id) < {long_enough} AND length(NEW.cursor) < length(NEW.row_id) + {extra})
    )
    AND NOT EXISTS (
        SELECT 1 FROM cursors
        WHERE lineage = NEW.lineage AND resource = NEW.resource AND query = NEW.query AND cursor = NEW.cursor
    )
BEGIN
    INSERT INTO cursors (lineage, resource, query, cursor, row_id, major, minor, earliest, latest, ends_at, expired)
    SELECT NEW.lineage, NEW.resource, NEW.query, NEW.cursor, NEW.row_id, 0, 0, 0, 0, {until}, 1
    WHERE NEW.cursor = NEW.row_id;
    SELECT RAISE(IGNORE);
END

-- name: STORE_ID
PRAGMA application_id

-- name: LATEST_ENTRY
SELECT coalesce(max(number), 0) FROM audit

-- name: AUDIT
SELECT number, {COLUMNS} FROM audit ORDER BY number

-- name: KEEP_ENTRY
INSERT INTO audit (number, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
