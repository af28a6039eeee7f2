-- Usage: the minute window, daily totals, request records, and the positions of cursors that were handed out.

-- Maps the machine's steady clock, which restarts at every boot, to one continuous scale.
CREATE TABLE steady (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    boot_id TEXT NOT NULL,
    shift INTEGER NOT NULL
);

-- Admission n of a key happened at this instant and was number `count` of its day
-- in Thailand time. Admission n is allowed once admission n - perMin is a minute
-- old, by the current perMin. The latest row of a key outlives the minute window,
-- because it holds the count of the current day.
CREATE TABLE admissions (
    key_id TEXT NOT NULL,
    n INTEGER NOT NULL,
    at INTEGER NOT NULL,
    day INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (key_id, n)
) WITHOUT ROWID;

-- The counts of a key's earlier days. A count is written when the key is first admitted on another day.
CREATE TABLE daily_totals (
    key_id TEXT NOT NULL,
    day INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (key_id, day)
) WITHOUT ROWID;
CREATE INDEX daily_totals_by_day ON daily_totals (day);

CREATE TABLE requests (
    number INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    key_id TEXT NOT NULL,
    route TEXT NOT NULL,
    status INTEGER NOT NULL,
    error TEXT,
    took_us INTEGER NOT NULL,
    personal_base TEXT,
    personal_members INTEGER NOT NULL
);
CREATE INDEX requests_by_time ON requests (at);
CREATE INDEX requests_with_personal_data ON requests (at) WHERE personal_base IS NOT NULL;

CREATE TABLE bookmarks (
    number INTEGER PRIMARY KEY,
    lineage TEXT NOT NULL,
    listing TEXT NOT NULL,
    cursor TEXT NOT NULL,
    route TEXT NOT NULL,
    major INTEGER NOT NULL,
    minor INTEGER NOT NULL,
    walk TEXT NOT NULL,
    horizon INTEGER NOT NULL,
    finished INTEGER NOT NULL DEFAULT 0,
    returns INTEGER NOT NULL DEFAULT 0,
    kept_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX bookmarks_by_cursor ON bookmarks (lineage, listing, cursor, route, major, minor, walk);
CREATE INDEX bookmarks_by_walk ON bookmarks (walk);
CREATE INDEX bookmarks_by_age ON bookmarks (kept_at);
