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

-- Devices that are signed in to the console, and sign-in links: see domain/devices.py. Only the hash of a token is stored.
CREATE TABLE console_devices (
    device_id TEXT PRIMARY KEY,
    token_digest BLOB,
    body BLOB NOT NULL
) WITHOUT ROWID;

-- The actions of the operator: see domain/audit.py. Entries can only be added. The triggers stop every statement that
-- would change or delete an entry. SQLite fires no delete trigger for INSERT OR REPLACE, so it has its own trigger.

CREATE TABLE audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    act TEXT NOT NULL,
    actor TEXT NOT NULL,
    via TEXT NOT NULL,
    host TEXT NOT NULL,
    key_id TEXT,
    changes TEXT NOT NULL, -- JSON: {"perMin": {"before": 60, "after": 120}}
    detail TEXT NOT NULL
);
CREATE INDEX audit_by_time ON audit (at, number);

CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'audit entries cannot be changed');
END;

CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'audit entries cannot be deleted');
END;

CREATE TRIGGER audit_is_not_replaced BEFORE INSERT ON audit
WHEN EXISTS (SELECT 1 FROM audit WHERE number = NEW.number)
BEGIN
    SELECT RAISE(ABORT, 'audit entries cannot be replaced');
END;

-- How far this file and the other two files of the store have been written, as far as this file knows: see positions.py.
CREATE TABLE positions (
    name TEXT PRIMARY KEY,
    at INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO positions VALUES ('books', 0), ('keys', 0), ('usage', 0);
