-- Data for `counterfoil requests` and the operator's pages: see docs/decisions/0022-operator-reads.md.

-- The X-Request-Id of the response. NULL in records of earlier versions, and empty once such a record is in requests_by_key.
ALTER TABLE requests ADD COLUMN request_id TEXT;

-- Indexing ten million records by key would keep the store locked for half a minute, so records of earlier versions
-- are added to requests_by_key later, in small batches. `below` is the number of the last one that was added.
CREATE TABLE request_indexing (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    below INTEGER NOT NULL
);
INSERT INTO request_indexing SELECT 1, max(number) + 1 FROM requests HAVING max(number) IS NOT NULL;
CREATE INDEX requests_by_key ON requests (key_id, at) WHERE request_id IS NOT NULL;
CREATE INDEX requests_by_id ON requests (request_id, at) WHERE request_id > '';
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
    request_id TEXT NOT NULL
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
INSERT INTO daily_errors
SELECT key_id, CAST(strftime('%Y%m%d', at / 1000 + 7 * 3600, 'unixepoch') AS INTEGER) AS day, error, count(*)
FROM requests WHERE error IS NOT NULL GROUP BY key_id, day, error;

-- How far each key lineage has read a list of changes: see ReadProgress in domain/request_records.py.
CREATE TABLE passes (
    lineage TEXT NOT NULL,
    list_name TEXT NOT NULL, -- 'changes' for the changes of a shop, 'feed' for the change feed
    shop_id TEXT NOT NULL, -- empty for the feed
    server_time INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    continued_at INTEGER NOT NULL,
    PRIMARY KEY (lineage, list_name, shop_id)
) WITHOUT ROWID;
