-- Revoked keys, recorded a second time: restoring an older keys.sqlite3 does not make them valid again.
CREATE TABLE revocations (
    key_id TEXT PRIMARY KEY,
    at INTEGER NOT NULL
) WITHOUT ROWID;
