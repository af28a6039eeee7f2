-- Indexes that begin with what a key covers, so that a lookup never touches a row outside its scope: a record of
-- somebody else must take exactly as long to be missed as one that does not exist.
CREATE UNIQUE INDEX bills_by_shop ON bills (shop, id);
DROP INDEX bills_by_id;
CREATE UNIQUE INDEX members_by_base ON members (provider_id, token);
CREATE INDEX shops_by_scope ON shops (franchise_id, id);
CREATE INDEX shops_by_base ON shops (franchise_id, removed, provider_id);
