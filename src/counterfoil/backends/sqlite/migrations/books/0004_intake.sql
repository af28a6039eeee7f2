-- Statistics of earlier loads, used to detect sudden changes: counts and field names, as JSON of limited size.
CREATE TABLE intake (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    state BLOB NOT NULL
);

-- The folders that `load --watch` watches: when the watcher last reported, and when a file was last delivered.
CREATE TABLE watched_folders (
    name TEXT PRIMARY KEY,
    seen_at INTEGER NOT NULL,
    delivered_at INTEGER NOT NULL,
    files INTEGER NOT NULL,
    quarantined INTEGER NOT NULL,
    stopped INTEGER NOT NULL
);
