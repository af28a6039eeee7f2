-- Shops, bills and members as they are published.
-- A bill's number combines its shop's number and its sequence in the shop, so
-- the table is stored shop by shop and a page of a list needs few disk pages.

CREATE TABLE deployment (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    secret_fingerprint TEXT NOT NULL
);

-- Everything up to this instant is visible: see docs/sync.md.
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
    facts_version INTEGER NOT NULL,
    applied_version INTEGER NOT NULL,
    facts BLOB NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX shops_by_franchise ON shops (franchise_id, number);
CREATE INDEX shops_to_rewrite ON shops (number) WHERE applied_version < facts_version;

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
    body BLOB NOT NULL
);
CREATE UNIQUE INDEX bills_by_id ON bills (id, shop);
CREATE INDEX bills_by_day ON bills (shop, bill_day, closed_at, id);
CREATE INDEX bills_by_change ON bills (shop, updated_at, id) WHERE updated_at IS NOT NULL;

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
    body BLOB NOT NULL
);
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
    rejected INTEGER NOT NULL DEFAULT 0
);
