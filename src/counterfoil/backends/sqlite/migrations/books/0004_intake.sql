-- The store's memory of earlier loads, to notice a sudden change: counts and names of fields, as JSON of bounded size.
CREATE TABLE intake (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    state BLOB NOT NULL
);

-- The spool folders that `load --watch` watches: when their watchers were last seen and files were last delivered.
CREATE TABLE watched_folders (
    name TEXT PRIMARY KEY,
    seen_at INTEGER NOT NULL,
    delivered_at INTEGER NOT NULL,
    files INTEGER NOT NULL,
    quarantined INTEGER NOT NULL,
    stopped INTEGER NOT NULL
);
