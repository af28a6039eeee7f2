-- Data for `counterfoil requests` and the operator's pages: see docs/decisions/0022-operator-reads.md.
-- Suits programs that know schema 8.

-- The X-Request-Id of the response. NULL in records of earlier versions.
ALTER TABLE requests ADD COLUMN request_id text COLLATE "C";

-- Building an index blocks writes, so these cover only months that begin later. After the migrations, `counterfoil
-- migrate` adds the existing months one by one without blocking anything: see request_indexes.py.
CREATE INDEX requests_newest ON ONLY requests (at);
CREATE INDEX requests_by_key ON ONLY requests (key_id, at);
CREATE INDEX requests_by_id ON ONLY requests (request_id, at) WHERE request_id IS NOT NULL;
CREATE INDEX requests_failed ON ONLY requests (at, key_id, error, route) WHERE error IS NOT NULL;
CREATE INDEX disclosures_by_key ON ONLY requests (key_id, at) WHERE personal_base IS NOT NULL;

-- How often a key's requests were answered with an error, per day in Thailand time. This includes requests of a key that
-- were not admitted, which have no record: rate_limited and key_revoked.
CREATE TABLE daily_errors (
    key_id text COLLATE "C" NOT NULL,
    day integer NOT NULL,
    error text COLLATE "C" NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (key_id, day, error)
) WITH (fillfactor = 70);
CREATE INDEX daily_errors_by_day ON daily_errors (day);
INSERT INTO daily_errors
SELECT key_id, to_char(to_timestamp(at / 1000.0) AT TIME ZONE 'UTC' + interval '7 hours', 'YYYYMMDD')::integer AS day,
    error, count(*)
FROM requests WHERE error IS NOT NULL GROUP BY 1, 2, 3;

-- How far each key lineage has read a list of changes: see ReadProgress in domain/request_records.py.
CREATE TABLE passes (
    lineage text COLLATE "C" NOT NULL,
    list_name text COLLATE "C" NOT NULL, -- 'changes' for the changes of a shop, 'feed' for the change feed
    shop_id text COLLATE "C" NOT NULL, -- empty for the feed
    server_time bigint NOT NULL,
    ended_at bigint NOT NULL,
    continued_at bigint NOT NULL,
    PRIMARY KEY (lineage, list_name, shop_id)
) WITH (fillfactor = 50);

-- What a load rejected, without any value of a record.
ALTER TABLE loads ADD COLUMN reasons text NOT NULL DEFAULT '{}'; -- JSON: the number of rejected lines by reason
ALTER TABLE loads ADD COLUMN rejects_file text; -- the name of the rejects file, without its folder

-- The first rejected lines of each load, in the order of its rejects file.
CREATE TABLE rejected_lines (
    load bigint NOT NULL, -- the load's number
    place integer NOT NULL,
    source text NOT NULL, -- the name of the file
    line bigint NOT NULL,
    reason text NOT NULL,
    fields text NOT NULL, -- JSON: the names of the fields that are wrong
    PRIMARY KEY (load, place)
);
