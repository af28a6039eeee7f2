-- Which changes each key lineage has read: see domain/read_ranges.py and docs/decisions/0022-operator-reads.md.
-- Suits programs that know schema 9.

-- The text of a multirange. A row of an earlier version has no ranges, or none up to server_time. In such a row,
-- everything up to server_time counts as read.
ALTER TABLE passes ADD COLUMN covered text NOT NULL DEFAULT '{}';

-- Merges the ranges of a stored row with ranges that were read since, and keeps the newest 50.
CREATE FUNCTION merge_ranges(known text, known_server_time bigint, read text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN read = '{}' THEN known ELSE (
        SELECT range_agg(newest.one)::text FROM (
            SELECT one FROM unnest(
                known::int8multirange + read::int8multirange + CASE
                    WHEN known_server_time > 0 AND known_server_time >= coalesce(upper(known::int8multirange), 0)
                    THEN int8multirange(int8range(coalesce(upper(known::int8multirange), 0), known_server_time + 1))
                    ELSE '{}'::int8multirange
                END
            ) AS one
            ORDER BY one DESC LIMIT 50
        ) AS newest
    ) END
$$;
