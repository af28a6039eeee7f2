-- Issued keys. Of a secret only its hash is kept.

CREATE TABLE keys (
    key_id TEXT PRIMARY KEY,
    secret_digest BLOB NOT NULL,
    body BLOB NOT NULL
) WITHOUT ROWID;

-- Goes up with every change, so that a reader need not read all keys to learn that none changed.
CREATE TABLE generation (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    number INTEGER NOT NULL
);
INSERT INTO generation VALUES (1, 0);
