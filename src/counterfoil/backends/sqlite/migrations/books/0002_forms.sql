-- Stores a member's form, a partly finished answer, beside its record: see domain/forms.py.
-- The form is NULL in older rows; it is then made on every read, until the record is loaded again.
-- A loader that does not know forms would leave an old form beside a new record, so `body` is renamed to make it fail.
ALTER TABLE members RENAME COLUMN body TO record;
ALTER TABLE members ADD COLUMN form BLOB;
