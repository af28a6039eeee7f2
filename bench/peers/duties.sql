-- The data of a contestant with duties: the keys, and the same tables for admissions and request records as ours
-- (packages/server/src/counterfoil/backends/sqlite/migrations/usage/0001_usage.sql).

CREATE TABLE keys (
    key_id TEXT PRIMARY KEY,
    sha256 TEXT NOT NULL,
    franchise_id TEXT NOT NULL,
    per_min INTEGER NOT NULL,
    per_day INTEGER NOT NULL
) WITHOUT ROWID;

-- Admission n is allowed once admission n - per_min is a minute old. `count` is the number of admissions of the key so far on that day (Thailand time).
CREATE TABLE admissions (
    key_id TEXT NOT NULL,
    n INTEGER NOT NULL,
    at INTEGER NOT NULL,
    day INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (key_id, n)
) WITHOUT ROWID;

CREATE TABLE daily_totals (
    key_id TEXT NOT NULL,
    day INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (key_id, day)
) WITHOUT ROWID;

CREATE TABLE requests (
    number INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    key_id TEXT NOT NULL,
    route TEXT NOT NULL,
    status INTEGER NOT NULL,
    took_us INTEGER NOT NULL
);
CREATE INDEX requests_by_time ON requests (at);
