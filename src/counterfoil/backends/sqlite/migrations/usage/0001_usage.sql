-- What keys spend: the minute window, daily totals, request records, and the places of cursors handed out.

-- Places the machine's steady clock on one scale over reboots.
CREATE TABLE steady (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    boot_id TEXT NOT NULL,
    shift INTEGER NOT NULL
);

-- Admission n of a key happened at this instant, as the count-th of its Thai day.
-- Admission n may happen once admission n - perMin is a minute old, whatever
-- perMin has become meanwhile. The latest row of a key is always kept: it holds
-- the count of the day under way.
CREATE TABLE admissions (
    key_id TEXT NOT NULL,
    n INTEGER NOT NULL,
    at INTEGER NOT NULL,
    day INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (key_id, n)
) WITHOUT ROWID;

-- The counts of days that are over for their key.
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
