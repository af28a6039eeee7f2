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

-- Everything up to this instant is visible: see docs/own-client.md. The row is also the write lock.
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
    latest_version integer NOT NULL,
    applied_version integer NOT NULL,
    facts bytea NOT NULL,
    body bytea NOT NULL
);
CREATE INDEX shops_by_franchise ON shops (franchise_id, number);
CREATE INDEX shops_to_rewrite ON shops (number) WHERE applied_version < latest_version;

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
    loaded_at bigint NOT NULL DEFAULT 0, -- without updatedAt, the stamp of the batch that loaded the bill; otherwise 0
    PRIMARY KEY (shop, id)
) WITH (toast_tuple_target = 8160, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE bills ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX bills_by_day ON bills (shop, bill_day, closed_at, id);
CREATE INDEX bills_by_change ON bills (shop, updated_at, id) WHERE updated_at IS NOT NULL;
CREATE INDEX bills_untracked ON bills (shop, loaded_at, id) WHERE updated_at IS NULL;

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
    record bytea NOT NULL,
    form bytea NOT NULL, -- the template: see domain/members.py
    PRIMARY KEY (provider_id, token)
) WITH (toast_tuple_target = 8160);
ALTER TABLE members ALTER COLUMN record SET STORAGE EXTERNAL;
ALTER TABLE members ALTER COLUMN form SET STORAGE EXTERNAL;
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
    rejected bigint NOT NULL DEFAULT 0,
    reasons text NOT NULL DEFAULT '{}', -- JSON: the number of rejected lines by reason
    rejects_file text, -- the name of the rejects file, without its folder
    totals text, -- JSON of limited size: the control totals of its bills, set when it ends
    files text NOT NULL DEFAULT '{}', -- JSON of limited size: the names of its files, each with the rejected lines
    alarms text NOT NULL DEFAULT '[]' -- JSON: the sudden changes in it, whether they were accepted or not
);

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

-- What waits for the operator: see domain/open_items.py.
CREATE TABLE open_items (
    number bigint PRIMARY KEY,
    identity text COLLATE "C" NOT NULL UNIQUE, -- the name of the kept file, or what names the load
    kind text NOT NULL, -- rejects, quarantined, held or unfinished
    load bigint, -- the load's number, if there was a load
    files text NOT NULL, -- JSON of limited size: names of delivered files, each with the rejected lines
    path text NOT NULL, -- the rejects file, or where the file is now; empty for rows of an export
    machine text NOT NULL, -- the machine on which `path` is
    reason text NOT NULL,
    digest text NOT NULL, -- SHA-256 of a held file
    decision text, -- accepted: the watcher is to load the held file
    opened_at bigint NOT NULL,
    closed_at bigint,
    closed_by text -- loaded, resolved, accepted or discarded
);
CREATE INDEX open_items_by_closing ON open_items (closed_at, number);
CREATE INDEX open_items_by_load ON open_items (load);

-- Statistics of earlier loads, used to detect sudden changes: counts and field names, as JSON of limited size.
CREATE TABLE intake (
    one integer PRIMARY KEY CHECK (one = 1),
    state bytea NOT NULL
);

-- The folders that `load --watch` watches: when the watcher last reported, and when a file was last delivered.
CREATE TABLE watched_folders (
    name text COLLATE "C" PRIMARY KEY,
    seen_at bigint NOT NULL,
    delivered_at bigint NOT NULL,
    files bigint NOT NULL,
    quarantined bigint NOT NULL,
    stopped boolean NOT NULL,
    problem text NOT NULL -- why files in it cannot be taken; empty if they can
);

-- The data for `GET /v1/changes`: see docs/decisions/0017-one-feed-of-changes.md.

-- One row per shop, so that a reader finds the shops that changed without looking at the others.
CREATE TABLE shop_changes (
    shop integer PRIMARY KEY, -- the shop's number
    franchise_id text COLLATE "C", -- the same as in `shops`
    joined_at bigint NOT NULL, -- when the shop was first loaded or joined its current franchise
    listed_at bigint NOT NULL, -- when its entry in GET /v1/shops last changed, appeared or disappeared
    latest_at bigint NOT NULL -- the latest stamp of anything in the shop that the feed returns
) WITH (fillfactor = 50);
CREATE INDEX shop_changes_by_franchise ON shop_changes (franchise_id, latest_at);

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

-- Devices that are signed in to the console, and sign-in links: see domain/devices.py. Only the hash of a token is stored.
CREATE TABLE console_devices (
    device_id text COLLATE "C" PRIMARY KEY,
    token_digest bytea,
    body bytea NOT NULL
);

-- The actions of the operator: see domain/audit.py. Entries can only be added. roles.sql grants no permission to change
-- or delete them, and the triggers prevent it even for the owner.
CREATE TABLE audit (
    origin text COLLATE "C" NOT NULL, -- 'postgresql', or 'sqlite' for an entry that `counterfoil copy` moved here
    number bigint NOT NULL,
    at bigint NOT NULL,
    act text NOT NULL,
    actor text NOT NULL,
    via text NOT NULL,
    host text NOT NULL,
    key_id text COLLATE "C",
    changes text NOT NULL, -- JSON: {"perMin": {"before": 60, "after": 120}}
    detail text NOT NULL,
    PRIMARY KEY (origin, number)
);
CREATE INDEX audit_by_time ON audit (at, number);

-- While `counterfoil copy` is filling the store, entries from the source may be deleted. The copy replaces them if the
-- source was restored from a backup between two rounds.
CREATE FUNCTION refuse_audit_change() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.origin = 'sqlite' AND EXISTS (SELECT FROM deployment WHERE secret_fingerprint LIKE 'filling %') THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION 'audit entries cannot be changed or deleted';
END
$$;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE ON audit
    FOR EACH ROW EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_is_not_truncated BEFORE TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();

-- The counts of a key's earlier days, and what a shared meter has reported for the current day.
CREATE TABLE daily_totals (
    key_id text COLLATE "C" NOT NULL,
    day integer NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (key_id, day)
) WITH (fillfactor = 70);
CREATE INDEX daily_totals_by_day ON daily_totals (day);

-- The request records, one partition per month: see request_month() below and docs/decisions/0022-operator-reads.md.
CREATE TABLE requests (
    at bigint NOT NULL,
    key_id text COLLATE "C" NOT NULL,
    route text NOT NULL,
    status integer NOT NULL,
    error text,
    took_us bigint NOT NULL,
    personal_base text,
    personal_members integer NOT NULL,
    request_id text COLLATE "C" NOT NULL, -- the X-Request-Id of the response
    detail text NOT NULL -- what was asked for and returned: see domain/request_records.py
) PARTITION BY RANGE (at);
CREATE INDEX requests_by_time ON requests USING brin (at);
CREATE INDEX requests_with_personal_data ON requests (at) WHERE personal_base IS NOT NULL;
CREATE INDEX requests_newest ON requests (at);
CREATE INDEX requests_by_key ON requests (key_id, at);
CREATE INDEX requests_by_id ON requests (request_id, at);
CREATE INDEX requests_failed ON requests (at, key_id, error, route) WHERE error IS NOT NULL;
CREATE INDEX disclosures_by_key ON requests (key_id, at) WHERE personal_base IS NOT NULL;

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

-- How far each key lineage has read a list of changes: see ReadProgress in domain/request_records.py.
CREATE TABLE passes (
    lineage text COLLATE "C" NOT NULL,
    list_name text COLLATE "C" NOT NULL, -- 'changes' for the changes of a shop, 'feed' for the change feed
    shop_id text COLLATE "C" NOT NULL, -- empty for the feed
    server_time bigint NOT NULL,
    ended_at bigint NOT NULL,
    continued_at bigint NOT NULL,
    covered text NOT NULL DEFAULT '{}', -- the ranges of changes that were read, as the text of a multirange
    PRIMARY KEY (lineage, list_name, shop_id)
) WITH (fillfactor = 50);

-- Merges the ranges of a stored row with ranges that were read since, and keeps the newest 50: see domain/request_records.py.
CREATE FUNCTION merge_ranges(known text, read text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN read = '{}' THEN known ELSE (
        SELECT range_agg(newest.one)::text FROM (
            SELECT one FROM unnest(known::int8multirange + read::int8multirange) AS one ORDER BY one DESC LIMIT 50
        ) AS newest
    ) END
$$;

-- One row per cursor: the position it stands for in its list. See docs/decisions/0014-one-cursor-one-position.md.
CREATE TABLE cursors (
    lineage text COLLATE "C" NOT NULL,
    resource text COLLATE "C" NOT NULL,
    query text COLLATE "C" NOT NULL,
    cursor text COLLATE "C" NOT NULL,
    row_id text COLLATE "C" NOT NULL, -- together with major and minor: the position
    major bigint NOT NULL,
    minor bigint NOT NULL,
    earliest bigint NOT NULL, -- earliest and latest horizon that the cursor was handed out with
    latest bigint NOT NULL,
    ends_at bigint NOT NULL, -- when it stops being valid; once expired, when its row may be deleted
    expired boolean NOT NULL DEFAULT false,
    PRIMARY KEY (lineage, resource, query, cursor)
);
CREATE INDEX cursors_by_row ON cursors (lineage, resource, query, row_id);
CREATE INDEX cursors_by_end ON cursors (ends_at);

-- The floor of each lineage: the newest serverTime that its keys were given. Reads are answered by a server that has
-- reached it. See docs/decisions/0015-monotonic-reads.md.
CREATE TABLE floors (
    lineage text COLLATE "C" PRIMARY KEY,
    horizon bigint NOT NULL
) WITH (fillfactor = 20);

-- The meter for deployments without a shared one.

-- One row per key: the number, instant and day of its latest admission. The row lock makes the
-- window exact across all nodes. `ahead` is the total by which the server's clock has stepped
-- back; it is added to the clock, so that instants never decrease.
CREATE TABLE meters (
    key_id text COLLATE "C" PRIMARY KEY,
    n bigint NOT NULL,
    at bigint NOT NULL,
    ahead bigint NOT NULL,
    day integer NOT NULL,
    count bigint NOT NULL
) WITH (fillfactor = 20);
CREATE INDEX meters_by_day ON meters (day);

-- Admission n of a key happened at this instant. Admission n is allowed once admission
-- n - perMin is a minute old, by the current perMin.
CREATE TABLE admissions (
    key_id text COLLATE "C" NOT NULL,
    n bigint NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (key_id, n)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);

-- Admits or refuses requests in one round trip. `instant` and `today` are null except in tests,
-- which bring their own clock. The clock is read under the key's lock, so that admissions are in
-- the order of their instants. Keys are locked in a fixed order, so that nodes cannot deadlock.
CREATE FUNCTION admit(key_ids text[], per_mins bigint[], instant bigint, today integer)
RETURNS TABLE (place bigint, wait_us bigint, day integer, count bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    asked record;
    meter meters%ROWTYPE;
    now_us bigint;
    thai_day integer;
    blocking bigint;
BEGIN
    -- A server that crashes loses the counts of the last fraction of a second: see docs/decisions/0010.
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR asked IN
        SELECT w.key_id, w.per_min, w.place
        FROM unnest(key_ids, per_mins) WITH ORDINALITY AS w (key_id, per_min, place)
        ORDER BY w.key_id COLLATE "C", w.place
    LOOP
        SELECT * INTO meter FROM meters AS m WHERE m.key_id = asked.key_id FOR UPDATE;
        IF NOT FOUND THEN
            INSERT INTO meters VALUES (asked.key_id, 0, 0, 0, 0, 0) ON CONFLICT DO NOTHING;
            SELECT * INTO meter FROM meters AS m WHERE m.key_id = asked.key_id FOR UPDATE;
        END IF;
        now_us := coalesce(instant, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) + meter.ahead;
        thai_day := coalesce(today, to_char(clock_timestamp() AT TIME ZONE 'UTC' + interval '7 hours', 'YYYYMMDD')::integer);
        IF now_us < meter.at THEN
            meter.ahead := meter.ahead + meter.at - now_us;
            now_us := meter.at;
            UPDATE meters AS m SET ahead = meter.ahead WHERE m.key_id = asked.key_id;
        END IF;
        SELECT a.at INTO blocking FROM admissions AS a
            WHERE a.key_id = asked.key_id AND a.n = meter.n + 1 - asked.per_min;
        place := asked.place;
        wait_us := greatest(0, blocking + 60000000 - now_us);
        IF wait_us > 0 THEN
            day := NULL;
            count := NULL;
            RETURN NEXT;
            CONTINUE;
        END IF;
        IF thai_day <> meter.day THEN
            -- Store the previous day's count. If the clock went back, the new day continues from its stored count.
            IF meter.n > 0 THEN
                INSERT INTO daily_totals VALUES (asked.key_id, meter.day, meter.count)
                    ON CONFLICT ON CONSTRAINT daily_totals_pkey DO UPDATE SET count = excluded.count;
            END IF;
            SELECT coalesce(max(t.count), 0) INTO meter.count FROM daily_totals AS t
                WHERE t.key_id = asked.key_id AND t.day = thai_day;
            meter.day := thai_day;
        END IF;
        meter.n := meter.n + 1;
        meter.count := meter.count + 1;
        INSERT INTO admissions VALUES (asked.key_id, meter.n, now_us);
        UPDATE meters AS m SET n = meter.n, at = now_us, day = meter.day, count = meter.count
            WHERE m.key_id = asked.key_id;
        IF meter.n % 16 = 0 THEN
            -- Reads only the oldest rows, so the cost does not depend on the size of the window.
            DELETE FROM admissions AS a WHERE a.key_id = asked.key_id AND a.n IN (
                SELECT o.n FROM (
                    SELECT i.n, i.at FROM admissions AS i WHERE i.key_id = asked.key_id ORDER BY i.n LIMIT 48
                ) AS o WHERE o.at <= now_us - 60000000
            );
        END IF;
        day := meter.day;
        count := meter.count;
        RETURN NEXT;
    END LOOP;
END
$$;

-- Admits or refuses requests like admit(), and returns the horizon for each answer: the floor of its lineage, raised
-- to `reached`, the horizon that all servers that are read from have reached. A lineage without a floor, or with one
-- that is ten minutes old, is given the primary's own horizon: no client can have been given a newer one.
CREATE FUNCTION admit_with_horizon(
    key_ids text[], per_mins bigint[], instant bigint, today integer, lineages text[], reached bigint
)
RETURNS TABLE (place bigint, wait_us bigint, day integer, count bigint, horizon bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    asked text;
    given bigint;
    raised boolean := false;
BEGIN
    -- Rows are locked in a fixed order, so that two nodes cannot deadlock.
    FOR asked IN SELECT DISTINCT l COLLATE "C" FROM unnest(lineages) AS l ORDER BY 1 LOOP
        SELECT f.horizon INTO given FROM floors AS f, horizon AS h WHERE f.lineage = asked AND f.horizon > h.at - 600000;
        IF NOT FOUND THEN
            INSERT INTO floors AS f SELECT asked, greatest(h.at, reached) FROM horizon AS h
                ON CONFLICT ON CONSTRAINT floors_pkey DO UPDATE SET horizon = greatest(f.horizon, excluded.horizon);
            raised := true;
        ELSIF given < reached THEN
            UPDATE floors AS f SET horizon = reached WHERE f.lineage = asked AND f.horizon < reached;
            raised := true;
        END IF;
    END LOOP;
    RETURN QUERY
        SELECT a.place, a.wait_us, a.day, a.count, f.horizon
        FROM admit(key_ids, per_mins, instant, today) AS a JOIN floors AS f ON f.lineage = lineages[a.place];
    -- admit() commits without waiting for the disk, but a horizon that was given out must not be lost.
    IF raised THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END $$;

-- Creates the partition for the month of an instant. Runs with its owner's rights, so that the
-- serving role needs no right to create tables.
CREATE FUNCTION request_month(instant bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    first timestamp := date_trunc('month', to_timestamp(instant / 1000.0) AT TIME ZONE 'UTC');
    name text := 'requests_' || to_char(first, 'YYYYMM');
BEGIN
    IF to_regclass(name) IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('counterfoil requests'));
    -- Query pg_class directly, because to_regclass() may repeat its earlier negative result.
    IF EXISTS (SELECT FROM pg_class WHERE relname = name AND relnamespace = current_schema()::regnamespace) THEN
        RETURN;
    END IF;
    -- Create the table separately and attach it, so that readers and writers of other months do not wait.
    EXECUTE format('CREATE TABLE %I (LIKE requests INCLUDING DEFAULTS)', name);
    EXECUTE format(
        'ALTER TABLE requests ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', name,
        (extract(epoch FROM first AT TIME ZONE 'UTC') * 1000)::bigint,
        (extract(epoch FROM (first + interval '1 month') AT TIME ZONE 'UTC') * 1000)::bigint
    );
END
$$;

-- Drops the months that ended before an instant; returns the number of deleted records.
CREATE FUNCTION drop_request_months(before bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    month regclass;
    gone bigint;
    total bigint := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('counterfoil requests'));
    FOR month IN
        SELECT inhrelid::regclass FROM pg_inherits
        WHERE inhparent = 'requests'::regclass
            AND right(inhrelid::regclass::text, 6) < to_char(to_timestamp(before / 1000.0) AT TIME ZONE 'UTC', 'YYYYMM')
    LOOP
        EXECUTE format('SELECT count(*) FROM %s', month) INTO gone;
        EXECUTE format('DROP TABLE %s', month);
        total := total + gone;
    END LOOP;
    RETURN total;
END
$$;
