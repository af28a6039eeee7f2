-- Suits programs that know schema 4.

-- The store's memory of earlier loads, to notice a sudden change: counts and names of fields, as JSON of bounded size.
CREATE TABLE intake (
    one integer PRIMARY KEY CHECK (one = 1),
    state bytea NOT NULL
);

-- The spool folders that `load --watch` watches: when their watchers were last seen and files were last delivered.
CREATE TABLE watched_folders (
    name text COLLATE "C" PRIMARY KEY,
    seen_at bigint NOT NULL,
    delivered_at bigint NOT NULL,
    files bigint NOT NULL,
    quarantined bigint NOT NULL,
    stopped boolean NOT NULL
);
