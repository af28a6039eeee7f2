-- The data for `GET /v1/changes`: see docs/decisions/0017-one-feed-of-changes.md.

-- For a bill without updatedAt, the stamp of the batch that loaded it. For all other bills, and for bills loaded before
-- this migration, the value is 0, which is older than any mark.
ALTER TABLE bills ADD COLUMN loaded_at bigint NOT NULL DEFAULT 0;
CREATE INDEX bills_untracked ON bills (shop, loaded_at, id) WHERE updated_at IS NULL;

-- One row per shop, so that a reader finds the shops that changed without looking at the others.
CREATE TABLE shop_changes (
    shop integer PRIMARY KEY, -- the shop's number
    franchise_id text COLLATE "C", -- the same as in `shops`
    joined_at bigint NOT NULL, -- when the shop was first loaded or joined its current franchise
    listed_at bigint NOT NULL, -- when its entry in GET /v1/shops last changed, appeared or disappeared
    latest_at bigint NOT NULL -- the latest stamp of anything in the shop that the feed returns
) WITH (fillfactor = 50);
CREATE INDEX shop_changes_by_franchise ON shop_changes (franchise_id, latest_at);
INSERT INTO shop_changes SELECT number, franchise_id, 0, 0, 0 FROM shops;

-- The shops that left a franchise. The row stays if the shop returns: `shops` says which franchise it is in now.
CREATE TABLE departures (
    franchise_id text COLLATE "C" NOT NULL,
    shop integer NOT NULL,
    left_at bigint NOT NULL,
    PRIMARY KEY (franchise_id, shop)
);

-- The bills that were removed. The row stays if the bill is loaded again: `bills` says whether it exists now.
CREATE TABLE removed_bills (
    shop integer NOT NULL,
    id text COLLATE "C" NOT NULL,
    removed_at bigint NOT NULL,
    PRIMARY KEY (shop, id)
);
CREATE INDEX removed_bills_by_change ON removed_bills (shop, removed_at, id);
CREATE INDEX removed_bills_by_time ON removed_bills (removed_at);

-- Marks below `oldest` are refused, because older removals were deleted or the store was restored from a backup. If the
-- table is empty, every mark is accepted.
CREATE TABLE feed (
    one integer PRIMARY KEY CHECK (one = 1),
    oldest bigint NOT NULL
);

-- Older loaders do not write these tables, so the feed would miss their changes. Renaming a column that every loader
-- reads makes them fail instead.
ALTER TABLE shops RENAME COLUMN facts_version TO latest_version;
