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
