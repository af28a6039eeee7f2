-- The meter for deployments without a shared one, and the monthly partitions of the request records.

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
