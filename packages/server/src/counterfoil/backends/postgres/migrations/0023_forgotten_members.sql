-- What `counterfoil members forget` needs: see docs/decisions/0024-forgetting-a-member.md.

-- The members that were forgotten. A mark is a hash of the member's token, which is a keyed hash of the member's ID, so
-- nobody can tell from it who the member was.
CREATE TABLE forgotten_members (
    mark text PRIMARY KEY,
    at bigint NOT NULL,
    finished_at bigint -- null while data of the member may still be in the store
);
