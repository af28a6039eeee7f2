-- Which changes each key lineage has read: see domain/read_ranges.py and docs/decisions/0022-operator-reads.md. In rows
-- of earlier versions, everything up to server_time counts as read.
ALTER TABLE passes ADD COLUMN covered TEXT NOT NULL DEFAULT '{}';
