-- The whole store: books, keys, usage.
--
-- Text compares by bytes (COLLATE "C"), so that lists come in the order that SQLite gives them.
-- What grows carries its shop, its membership base or its key first in its primary key, and no
-- foreign key or sequence crosses tables: Citus, or partitions by shop, can divide it as it is.
-- Bodies lie in the row, uncompressed, up to a whole page: reading a bill costs no decompression
-- and no look into a second table.

CREATE TABLE deployment (
    one integer PRIMARY KEY CHECK (one = 1),
    secret_fingerprint text NOT NULL
);

-- Up to this instant everything is visible: see docs/sync.md. Its row is the write lock.
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
    digest bytea NOT NULL, -- of what is returned, updatedAt left out: tells whether a record changes anything
    seal bytea NOT NULL, -- of the finished body: what an ETag is made of
    withheld bytea, -- what the bill says that its shop's present facts hide
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

-- Messaging accounts, as keyed hashes only.
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

-- The revision at which something was removed, so that an older record does not bring it back.
-- A removed shop keeps its row, and its revision there; here are those that came before their shop.
CREATE TABLE removals (
    shop text COLLATE "C" NOT NULL, -- of a bill; empty for the other kinds
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL, -- of a member: the token
    rev numeric NOT NULL,
    PRIMARY KEY (shop, kind, id)
);

-- How far each load has come, for the operator.
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

-- Issued keys. Of a secret only its hash is kept.
CREATE TABLE keys (
    key_id text COLLATE "C" PRIMARY KEY,
    secret_digest bytea NOT NULL,
    body bytea NOT NULL
);

-- Changes with every change of a key, so that a reader need not read all keys to learn that none changed.
CREATE TABLE generation (
    one integer PRIMARY KEY CHECK (one = 1),
    number bigint NOT NULL,
    at timestamptz NOT NULL
);
INSERT INTO generation VALUES (1, 0, clock_timestamp());

-- The counts of days that are over for their key, and what a shared meter has told of the day under way.
CREATE TABLE daily_totals (
    key_id text COLLATE "C" NOT NULL,
    day integer NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (key_id, day)
) WITH (fillfactor = 70);
CREATE INDEX daily_totals_by_day ON daily_totals (day);

-- The request records, a partition a month: see request_month() in the next file.
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
