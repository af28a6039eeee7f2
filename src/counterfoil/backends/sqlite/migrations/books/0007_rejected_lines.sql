-- What a load rejected, without any value of a record.
ALTER TABLE loads ADD COLUMN reasons TEXT NOT NULL DEFAULT '{}'; -- JSON: the number of rejected lines by reason
ALTER TABLE loads ADD COLUMN rejects_file TEXT; -- the name of the rejects file, without its folder

-- The first rejected lines of each load, in the order of its rejects file.
CREATE TABLE rejected_lines (
    load INTEGER NOT NULL, -- the load's number
    place INTEGER NOT NULL,
    source TEXT NOT NULL, -- the name of the file
    line INTEGER NOT NULL,
    reason TEXT NOT NULL,
    fields TEXT NOT NULL, -- JSON: the names of the fields that are wrong
    PRIMARY KEY (load, place)
) WITHOUT ROWID;
