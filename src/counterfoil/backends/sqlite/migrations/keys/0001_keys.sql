-- Issued keys. Only the hash of a secret is stored.

CREATE TABLE keys (
    key_id TEXT PRIMARY KEY,
    secret_digest BLOB NOT NULL,
    body BLOB NOT NULL
) WITHOUT ROWID;

-- Increases with every change, so that a reader can tell without reading all keys that none has changed.
CREATE TABLE generation (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    number INTEGER NOT NULL
);
INSERT INTO generation VALUES (1, 0);
