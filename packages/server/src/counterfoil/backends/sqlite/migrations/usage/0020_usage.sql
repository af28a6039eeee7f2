-- Usage: the minute window, daily totals, request records, and the positions of cursors that were handed out.

-- Maps the machine's steady clock, which restarts at every boot, to one continuous scale.
CREATE TABLE steady (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    boot_id TEXT NOT NULL,
    shift INTEGER NOT NULL
);

-- Admission n of a key happened at this instant and was number `count` of its day
-- in Thailand time. Admission n is allowed once admission n - perMin is a minute
-- old, by the current perMin. The latest row of a key outlives the minute window,
-- because it holds the count of the current day.
CREATE TABLE admissions (
    key_id TEXT NOT NULL,
    n INTEGER NOT NULL,
    at INTEGER NOT NULL,
    day INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (key_id, n)
) WITHOUT ROWID;

-- The counts of a key's earlier days. A count is written when the key is first admitted on another day.
CREATE TABLE daily_totals (
    key_id TEXT NOT NULL,
    day INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (key_id, day)
) WITHOUT ROWID;
CREATE INDEX daily_totals_by_day ON daily_totals (day);

-- The request records: see docs/decisions/0022-operator-reads.md.
CREATE TABLE requests (
    number INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    key_id TEXT NOT NULL,
    route TEXT NOT NULL,
    status INTEGER NOT NULL,
    error TEXT,
    took_us INTEGER NOT NULL,
    personal_base TEXT,
    personal_members INTEGER NOT NULL,
    request_id TEXT NOT NULL, -- the X-Request-Id of the response
    detail TEXT NOT NULL -- what was asked for and returned: see domain/request_records.py
);
CREATE INDEX requests_by_time ON requests (at);
CREATE INDEX requests_with_personal_data ON requests (at) WHERE personal_base IS NOT NULL;
CREATE INDEX requests_by_key ON requests (key_id, at);
CREATE INDEX requests_by_id ON requests (request_id, at);
CREATE INDEX requests_failed ON requests (at, key_id, error, route) WHERE error IS NOT NULL;
CREATE INDEX disclosures_by_key ON requests (key_id, at) WHERE personal_base IS NOT NULL;

-- Records that are not in `requests` yet. Adding a record to `requests` changes a page in each index, so a worker collects
-- records here, where they survive if it is killed, and moves several at once.
CREATE TABLE recent_requests (
    at INTEGER NOT NULL,
    key_id TEXT NOT NULL,
    route TEXT NOT NULL,
    status INTEGER NOT NULL,
    error TEXT,
    took_us INTEGER NOT NULL,
    personal_base TEXT,
    personal_members INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    detail TEXT NOT NULL
);

-- How often a key's requests were answered with an error, per day in Thailand time. This includes requests of a key that
-- were not admitted, which have no record: rate_limited and key_revoked.
CREATE TABLE daily_errors (
    key_id TEXT NOT NULL,
    day INTEGER NOT NULL,
    error TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (key_id, day, error)
) WITHOUT ROWID;
CREATE INDEX daily_errors_by_day ON daily_errors (day);

-- How far each key lineage has read a list of changes: see ReadProgress in domain/request_records.py.
CREATE TABLE passes (
    lineage TEXT NOT NULL,
    list_name TEXT NOT NULL, -- 'changes' for the changes of a shop, 'feed' for the change feed
    shop_id TEXT NOT NULL, -- empty for the feed
    server_time INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    continued_at INTEGER NOT NULL,
    covered TEXT NOT NULL DEFAULT '{}', -- the ranges of changes that were read: see domain/request_records.py
    PRIMARY KEY (lineage, list_name, shop_id)
) WITHOUT ROWID;

-- One row per cursor: the position it stands for in its list. See docs/decisions/0014-one-cursor-one-position.md.
CREATE TABLE cursors (
    lineage TEXT NOT NULL,
    resource TEXT NOT NULL,
    query TEXT NOT NULL,
    cursor TEXT NOT NULL,
    row_id TEXT NOT NULL, -- together with major and minor: the position
    major INTEGER NOT NULL,
    minor INTEGER NOT NULL,
    earliest INTEGER NOT NULL, -- earliest and latest horizon that the cursor was handed out with
    latest INTEGER NOT NULL,
    ends_at INTEGER NOT NULL, -- when it stops being valid; once expired, when its row may be deleted
    expired INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (lineage, resource, query, cursor)
);
CREATE INDEX cursors_by_row ON cursors (lineage, resource, query, row_id);
CREATE INDEX cursors_by_end ON cursors (ends_at);

-- Revoked keys, recorded a second time: restoring an older keys.sqlite3 does not make them valid again.
CREATE TABLE revocations (
    key_id TEXT PRIMARY KEY,
    at INTEGER NOT NULL
) WITHOUT ROWID;

-- How far this file and the other two files of the store have been written, as far as this file knows: see positions.py.
CREATE TABLE positions (
    name TEXT PRIMARY KEY,
    at INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO positions VALUES ('books', 0), ('keys', 0), ('usage', 0);
