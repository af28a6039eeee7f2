-- What `counterfoil loads undo` needs: see docs/decisions/0023-undo-of-a-load.md.

-- The load that added the bill or last changed it, or null or 0 if that is not known. Negative: the load was undone;
-- the bill is void, or if another load had added it, it stays until its next record, which replaces it.
ALTER TABLE bills ADD COLUMN load INTEGER;
-- What `load` was before that load changed the bill, or 0 if that is not known. Null if the load added the bill.
ALTER TABLE bills ADD COLUMN load_before INTEGER;
-- The first later load that delivered the bill with the same content.
ALTER TABLE bills ADD COLUMN confirmed_by INTEGER;

-- The load whose record removed the bill. Negative: the load whose undo did.
ALTER TABLE removed_bills ADD COLUMN load INTEGER;

-- The horizon when the load began: every stamp of the load is above it. Null for a load of an older version.
ALTER TABLE loads ADD COLUMN horizon INTEGER;
-- When the undo of the load was finished.
ALTER TABLE loads ADD COLUMN undone_at INTEGER;
