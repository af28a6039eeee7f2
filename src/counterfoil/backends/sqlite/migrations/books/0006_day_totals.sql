-- The totals of each shop's bills per day, for `GET /v1/digests`: see docs/decisions/0018-digests-by-day.md.
-- A batch that writes bills marks their days as stale, and the service later computes the stale days again. Until then,
-- a stale day is computed each time it is read.
CREATE TABLE day_totals (
    shop INTEGER NOT NULL, -- the shop's number
    bill_day INTEGER NOT NULL,
    stale INTEGER NOT NULL DEFAULT 1,
    bills INTEGER NOT NULL DEFAULT 0,
    voids INTEGER NOT NULL DEFAULT 0,
    net TEXT NOT NULL DEFAULT '0', -- net, tip and hash are exact decimal numbers
    tip TEXT NOT NULL DEFAULT '0',
    latest INTEGER, -- the latest updatedAt
    hash TEXT NOT NULL DEFAULT '0',
    PRIMARY KEY (shop, bill_day)
) WITHOUT ROWID;
CREATE INDEX stale_days ON day_totals (shop, bill_day) WHERE stale = 1;
INSERT INTO day_totals (shop, bill_day) SELECT DISTINCT shop, bill_day FROM bills;
