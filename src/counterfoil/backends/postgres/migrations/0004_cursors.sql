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

-- Cursors of the previous version are answered with bad_cursor. Their ids stay taken: a client may still hold them.
INSERT INTO cursors
SELECT DISTINCT lineage, listing, route, cursor, cursor, 0, 0, 0, 0,
    (extract(epoch FROM now() + interval '90 days') * 1000)::bigint, true
FROM bookmarks;
DROP TABLE bookmarks;

-- The floor of each lineage: the newest serverTime that its keys were given. Reads are answered by a server that has
-- reached it. See docs/decisions/0015-monotonic-reads.md.
CREATE TABLE floors (
    lineage text COLLATE "C" PRIMARY KEY,
    horizon bigint NOT NULL
) WITH (fillfactor = 20);

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
