-- Shops, bills and members as they are published.
-- A bill's number combines its shop's number and its sequence in the shop, so
-- the table is stored shop by shop and a page of a list needs few disk pages.

CREATE TABLE deployment (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    secret_fingerprint TEXT NOT NULL
);

-- Everything up to this instant is visible: see docs/own-client.md.
CREATE TABLE horizon (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    at INTEGER NOT NULL
);
INSERT INTO horizon VALUES (1, 0);

CREATE TABLE shops (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    franchise_id TEXT,
    provider_id TEXT,
    removed INTEGER NOT NULL,
    rev NUMERIC,
    next_bill INTEGER NOT NULL,
    latest_version INTEGER NOT NULL,
    applied_version INTEGER NOT NULL,
    facts BLOB NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX shops_by_franchise ON shops (franchise_id, number);
-- These two, bills_by_shop and members_by_base begin with what a key covers, so that a lookup never touches a row outside
-- its scope: a record of somebody else must take exactly as long to be missed as one that does not exist.
CREATE INDEX shops_by_scope ON shops (franchise_id, id);
CREATE INDEX shops_by_base ON shops (franchise_id, removed, provider_id);
CREATE INDEX shops_to_rewrite ON shops (number) WHERE applied_version < latest_version;

CREATE TABLE bills (
    number INTEGER PRIMARY KEY,
    shop INTEGER NOT NULL,
    id TEXT NOT NULL,
    bill_day INTEGER NOT NULL,
    closed_at INTEGER,
    updated_at INTEGER,
    trading_day TEXT,
    rev NUMERIC,
    facts_version INTEGER NOT NULL,
    digest BLOB NOT NULL, -- hash of the body with updatedAt null: tells whether a record changes anything
    seal BLOB NOT NULL, -- short hash of the finished body: ETags are made from it
    withheld BLOB, -- source data that the body does not show because of the shop's facts; usually NULL
    body BLOB NOT NULL,
    loaded_at INTEGER NOT NULL DEFAULT 0 -- without updatedAt, the stamp of the batch that loaded the bill; otherwise 0
);
CREATE UNIQUE INDEX bills_by_shop ON bills (shop, id);
CREATE INDEX bills_by_day ON bills (shop, bill_day, closed_at, id);
CREATE INDEX bills_by_change ON bills (shop, updated_at, id) WHERE updated_at IS NOT NULL;
CREATE INDEX bills_untracked ON bills (shop, loaded_at, id) WHERE updated_at IS NULL;

CREATE TABLE bases (
    id TEXT PRIMARY KEY,
    rev NUMERIC,
    body BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE members (
    number INTEGER PRIMARY KEY,
    token TEXT NOT NULL UNIQUE,
    provider_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    rev NUMERIC,
    record BLOB NOT NULL,
    form BLOB NOT NULL -- the template: see domain/members.py
);
CREATE UNIQUE INDEX members_by_base ON members (provider_id, token);
CREATE INDEX members_by_signup ON members (provider_id, created_at, token);

-- Messaging accounts, stored only as keyed hashes.
CREATE TABLE accounts (
    provider_id TEXT NOT NULL,
    hash TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    token TEXT NOT NULL,
    channel TEXT
);
CREATE INDEX accounts_by_hash ON accounts (provider_id, hash);
CREATE INDEX accounts_by_member ON accounts (token);

-- The revision at which something was removed, so that an older record does not restore it.
-- A removed shop keeps its row and its revision there; a shop is listed here only if its removal arrived first.
CREATE TABLE removals (
    kind TEXT NOT NULL,
    shop TEXT NOT NULL, -- the shop of a bill; empty for other kinds
    id TEXT NOT NULL, -- the token of a member; otherwise the id of the record
    rev NUMERIC NOT NULL,
    PRIMARY KEY (kind, shop, id)
) WITHOUT ROWID;

-- The progress of each load, for the operator.
CREATE TABLE loads (
    number INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    finished_at INTEGER,
    lines INTEGER NOT NULL DEFAULT 0,
    changed INTEGER NOT NULL DEFAULT 0,
    rejected INTEGER NOT NULL DEFAULT 0,
    reasons TEXT NOT NULL DEFAULT '{}', -- JSON: the number of rejected lines by reason
    rejects_file TEXT, -- the name of the rejects file, without its folder
    totals TEXT, -- JSON of limited size: the control totals of its bills, set when it ends
    files TEXT NOT NULL DEFAULT '{}', -- JSON of limited size: the names of its files, each with the rejected lines
    alarms TEXT NOT NULL DEFAULT '[]' -- JSON: the sudden changes in it, whether they were accepted or not
);

-- The first rejected lines of each load, in the order of its rejects file.
CREATE TABLE rejected_lines (
    load INTEGER NOT NULL, -- the load's number
    place INTEGER NOT NULL,
    source TEXT NOT NULL, -- the name of the file
    line INTEGER NOT NULL,
    reason TEXT NOT NULL,
    fields TEXT NOT NULL, -- JSON: the names of the fields that are wrong
    PRIMARY KEY (load, place)
) WITHOUT ROWID;

-- What waits for the operator: see domain/open_items.py.
CREATE TABLE open_items (
    number INTEGER PRIMARY KEY,
    identity TEXT NOT NULL UNIQUE, -- the name of the kept file, or what names the load
    kind TEXT NOT NULL, -- rejects, quarantined, held or unfinished
    load INTEGER, -- the load's number, if there was a load
    files TEXT NOT NULL, -- JSON of limited size: names of delivered files, each with the rejected lines
    path TEXT NOT NULL, -- the rejects file, or where the file is now; empty for rows of an export
    machine TEXT NOT NULL, -- the machine on which `path` is
    reason TEXT NOT NULL,
    digest TEXT NOT NULL, -- SHA-256 of a held file
    decision TEXT, -- accepted: the watcher is to load the held file
    opened_at INTEGER NOT NULL,
    closed_at INTEGER,
    closed_by TEXT -- loaded, resolved, accepted or discarded
);
CREATE INDEX open_items_by_closing ON open_items (closed_at, number);
CREATE INDEX open_items_by_load ON open_items (load);

-- Statistics of earlier loads, used to detect sudden changes: counts and field names, as JSON of limited size.
CREATE TABLE intake (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    state BLOB NOT NULL
);

-- The folders that `load --watch` watches: when the watcher last reported, and when a file was last delivered.
CREATE TABLE watched_folders (
    name TEXT PRIMARY KEY,
    seen_at INTEGER NOT NULL,
    delivered_at INTEGER NOT NULL,
    files INTEGER NOT NULL,
    quarantined INTEGER NOT NULL,
    stopped INTEGER NOT NULL,
    problem TEXT NOT NULL -- why files in it cannot be taken; empty if they can
);

-- The data for `GET /v1/changes`: see docs/decisions/0017-one-feed-of-changes.md.

-- One row per shop, so that a reader finds the shops that changed without looking at the others.
CREATE TABLE shop_changes (
    shop INTEGER PRIMARY KEY, -- the shop's number
    franchise_id TEXT, -- the same as in `shops`
    joined_at INTEGER NOT NULL, -- when the shop was first loaded or joined its current franchise
    listed_at INTEGER NOT NULL, -- when its entry in GET /v1/shops last changed, appeared or disappeared
    latest_at INTEGER NOT NULL -- the latest stamp of anything in the shop that the feed returns
);
CREATE INDEX shop_changes_by_franchise ON shop_changes (franchise_id, latest_at);

-- The shops that left a franchise. The row stays if the shop returns: `shops` says which franchise it is in now.
CREATE TABLE departures (
    franchise_id TEXT NOT NULL,
    shop INTEGER NOT NULL,
    left_at INTEGER NOT NULL,
    PRIMARY KEY (franchise_id, shop)
) WITHOUT ROWID;

-- The bills that were removed. The row stays if the bill is loaded again: `bills` says whether it exists now.
CREATE TABLE removed_bills (
    shop INTEGER NOT NULL,
    id TEXT NOT NULL,
    removed_at INTEGER NOT NULL,
    PRIMARY KEY (shop, id)
) WITHOUT ROWID;
CREATE INDEX removed_bills_by_change ON removed_bills (shop, removed_at, id);
CREATE INDEX removed_bills_by_time ON removed_bills (removed_at);

-- Marks below `oldest` are refused, because older removals were deleted or the store was restored from a backup. If the
-- table is empty, every mark is accepted.
CREATE TABLE feed (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    oldest INTEGER NOT NULL
);

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

-- How far this file and the other two files of the store have been written, as far as this file knows: see positions.py.
CREATE TABLE positions (
    name TEXT PRIMARY KEY,
    at INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO positions VALUES ('books', 0), ('keys', 0), ('usage', 0);
