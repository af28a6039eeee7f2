-- A member's record, and beside it its answer with blanks: see domain/forms.py.
-- NULL in a row from before; it is made when the member is read, until the record is loaded again.
-- A loader that knows nothing of forms would leave an old one beside a new record: under this name it finds no column.
ALTER TABLE members RENAME COLUMN body TO record;
ALTER TABLE members ADD COLUMN form bytea;
ALTER TABLE members ALTER COLUMN form SET STORAGE EXTERNAL;
