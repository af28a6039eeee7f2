-- The totals of each shop's bills per day, for `GET /v1/digests`: see docs/decisions/0018-digests-by-day.md.
-- A batch that writes bills marks their days as stale, and the service later computes the stale days again. Until then,
-- a stale day is computed each time it is read.
CREATE TABLE day_totals (
    shop integer NOT NULL, -- the shop's number
    bill_day integer NOT NULL,
    stale integer NOT NULL DEFAULT 1,
    bills bigint NOT NULL DEFAULT 0,
    voids bigint NOT NULL DEFAULT 0,
    net text NOT NULL DEFAULT '0', -- net, tip and hash are exact decimal numbers
    tip text NOT NULL DEFAULT '0',
    latest bigint, -- the latest updatedAt
    hash text NOT NULL DEFAULT '0',
    PRIMARY KEY (shop, bill_day)
);
CREATE INDEX stale_days ON day_totals (shop, bill_day) WHERE stale = 1;
INSERT INTO day_totals (shop, bill_day) SELECT DISTINCT shop, bill_day FROM bills;
