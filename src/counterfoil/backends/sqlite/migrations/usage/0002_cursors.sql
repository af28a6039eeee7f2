-- One row per cursor: the position it stands for in its list. See docs/decisions/0014-one-cursor-one-position.md.
CREATE TABLE cursors (
    lineage TEXT NOT NULL,
    resource TEXT NOT NULL,
    query TEXT NOT NULL,
    cursor TEXT NOT NULL,
    row_id TEXT NOT NULL, -- together with major and minor: the position
    major INTEGER NOT NULL,
    minor INTEGER NOT NULL,
    earliest INTEGER NOT NULL, -- earliest and latest horizon that the cursor was handed out with
    latest INTEGER NOT NULL,
    ends_at INTEGER NOT NULL, -- when it stops being valid; once expired, when its row may be deleted
    expired INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (lineage, resource, query, cursor)
);
CREATE INDEX cursors_by_row ON cursors (lineage, resource, query, row_id);
CREATE INDEX cursors_by_end ON cursors (ends_at);

-- Cursors of the previous version are answered with bad_cursor. Their ids stay taken: a client may still hold them.
INSERT INTO cursors
SELECT lineage, listing, route, cursor, cursor, 0, 0, 0, 0, (strftime('%s', 'now') + 90 * 86400) * 1000, 1
FROM bookmarks GROUP BY lineage, listing, route, cursor;
DROP TABLE bookmarks;
