-- The whole store: books, keys, usage.
--
-- Text is compared by bytes (COLLATE "C"), so that lists have the same order as in SQLite.
-- The primary keys of large tables begin with the shop, the membership base or the key, and no
-- foreign key or sequence spans tables, so Citus or partitions by shop can divide the store.
-- Bodies are stored in the row, uncompressed, up to a whole page, so that reading a bill needs
-- neither decompression nor a lookup in the TOAST table.

CREATE TABLE deployment (
    one integer PRIMARY KEY CHECK (one = 1),
    secret_fingerprint text NOT NULL
);

-- Everything up to this instant is visible: see docs/sync.md. The row is also the write lock.
CREATE TABLE horizon (
    one integer PRIMARY KEY CHECK (one = 1),
    at bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO horizon VALUES (1, 0);

CREATE TABLE shops (
    number integer PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    franchise_id text COLLATE "C",
    provider_id text COLLATE "C",
    removed boolean NOT NULL,
    rev numeric,
    facts_version integer NOT NULL,
    applied_version integer NOT NULL,
    facts bytea NOT NULL,
    body bytea NOT NULL
);
CREATE INDEX shops_by_franchise ON shops (franchise_id, number);
CREATE INDEX shops_to_rewrite ON shops (number) WHERE applied_version < facts_version;

CREATE TABLE bills (
    shop integer NOT NULL,
    id text COLLATE "C" NOT NULL,
    bill_day integer NOT NULL,
    closed_at bigint,
    updated_at bigint,
    trading_day text,
    rev numeric,
    facts_version integer NOT NULL,
    digest bytea NOT NULL, -- hash of the body with updatedAt null: tells whether a record changes anything
    seal bytea NOT NULL, -- short hash of the finished body: ETags are made from it
    withheld bytea, -- source data that the body does not show because of the shop's facts; usually NULL
    body bytea NOT NULL,
    PRIMARY KEY (shop, id)
) WITH (toast_tuple_target = 8160, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE bills ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX bills_by_day ON bills (shop, bill_day, closed_at, id);
CREATE INDEX bills_by_change ON bills (shop, updated_at, id) WHERE updated_at IS NOT NULL;

CREATE TABLE bases (
    id text COLLATE "C" PRIMARY KEY,
    rev numeric,
    body bytea NOT NULL
);

CREATE TABLE members (
    provider_id text COLLATE "C" NOT NULL,
    token text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    rev numeric,
    body bytea NOT NULL,
    PRIMARY KEY (provider_id, token)
) WITH (toast_tuple_target = 8160);
ALTER TABLE members ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX members_by_signup ON members (provider_id, created_at, token);
CREATE INDEX members_by_token ON members (token);

-- Messaging accounts, stored only as keyed hashes.
CREATE TABLE accounts (
    provider_id text COLLATE "C" NOT NULL,
    token text COLLATE "C" NOT NULL,
    place integer NOT NULL,
    hash text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    channel text COLLATE "C",
    PRIMARY KEY (provider_id, token, place)
);
CREATE INDEX accounts_by_hash ON accounts (provider_id, hash);

-- The revision at which something was removed, so that an older record does not restore it.
-- A removed shop keeps its row and its revision there; a shop is listed here only if its removal arrived first.
CREATE TABLE removals (
    shop text COLLATE "C" NOT NULL, -- the shop of a bill; empty for other kinds
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL, -- the token of a member; otherwise the id of the record
    rev numeric NOT NULL,
    PRIMARY KEY (shop, kind, id)
);

-- The progress of each load, for the operator.
CREATE TABLE loads (
    number bigint PRIMARY KEY,
    source text NOT NULL,
    started_at bigint NOT NULL,
    seen_at bigint NOT NULL,
    finished_at bigint,
    lines bigint NOT NULL DEFAULT 0,
    changed bigint NOT NULL DEFAULT 0,
    rejected bigint NOT NULL DEFAULT 0
);

-- Issued keys. Only the hash of a secret is stored.
CREATE TABLE keys (
    key_id text COLLATE "C" PRIMARY KEY,
    secret_digest bytea NOT NULL,
    body bytea NOT NULL
);

-- Changes whenever a key changes, so that a reader can tell without reading all keys that none has changed.
CREATE TABLE generation (
    one integer PRIMARY KEY CHECK (one = 1),
    number bigint NOT NULL,
    at timestamptz NOT NULL
);
INSERT INTO generation VALUES (1, 0, clock_timestamp());

-- The counts of a key's earlier days, and what a shared meter has reported for the current day.
CREATE TABLE daily_totals (
    key_id text COLLATE "C" NOT NULL,
    day integer NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (key_id, day)
) WITH (fillfactor = 70);
CREATE INDEX daily_totals_by_day ON daily_totals (day);

-- The request records, one partition per month: see request_month() in the next file.
CREATE TABLE requests (
    at bigint NOT NULL,
    key_id text COLLATE "C" NOT NULL,
    route text NOT NULL,
    status integer NOT NULL,
    error text,
    took_us bigint NOT NULL,
    personal_base text,
    personal_members integer NOT NULL
) PARTITION BY RANGE (at);
CREATE INDEX requests_by_time ON requests USING brin (at);
CREATE INDEX requests_with_personal_data ON requests (at) WHERE personal_base IS NOT NULL;

CREATE TABLE bookmarks (
    lineage text COLLATE "C" NOT NULL,
    listing text COLLATE "C" NOT NULL,
    cursor text COLLATE "C" NOT NULL,
    route text COLLATE "C" NOT NULL,
    major bigint NOT NULL,
    minor bigint NOT NULL,
    walk text NOT NULL,
    horizon bigint NOT NULL,
    finished boolean NOT NULL DEFAULT false,
    returns integer NOT NULL DEFAULT 0,
    kept_at bigint NOT NULL,
    first_kept timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (lineage, listing, cursor, route, major, minor, walk)
);
CREATE INDEX bookmarks_by_walk ON bookmarks (walk);
CREATE INDEX bookmarks_by_age ON bookmarks (kept_at);
