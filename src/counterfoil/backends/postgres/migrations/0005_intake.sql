-- Suits programs that know schema 4.

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
    stopped boolean NOT NULL
);
