-- What the pages about the business need.

-- The part of `net` that is of voided bills, or null if it was not added up. The running service does so for recent days.
ALTER TABLE day_totals ADD COLUMN void_net TEXT;
UPDATE day_totals SET stale = 1
WHERE voids > 0 AND bill_day >= CAST(strftime('%Y%m%d', (SELECT at FROM horizon) / 1000 - 100 * 86400, 'unixepoch') AS INTEGER);

-- What a held delivery would change, as its watcher found when it held it: JSON of limited size, without names of
-- persons. See domain/deliveries.py.
CREATE TABLE delivery_previews (
    identity TEXT PRIMARY KEY, -- that of the open item
    preview TEXT NOT NULL
) WITHOUT ROWID;
