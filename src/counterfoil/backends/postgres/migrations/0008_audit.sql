-- The actions of the operator: see domain/audit.py. Entries can only be added. roles.sql grants no permission to change
-- or delete them, and the triggers prevent it even for the owner.
-- Suits programs that know schema 7.

CREATE TABLE audit (
    origin text COLLATE "C" NOT NULL, -- 'postgresql', or 'sqlite' for an entry that `counterfoil copy` moved here
    number bigint NOT NULL,
    at bigint NOT NULL,
    act text NOT NULL,
    actor text NOT NULL,
    via text NOT NULL,
    host text NOT NULL,
    key_id text COLLATE "C",
    changes text NOT NULL, -- JSON: {"perMin": {"before": 60, "after": 120}}
    detail text NOT NULL,
    PRIMARY KEY (origin, number)
);
CREATE INDEX audit_by_time ON audit (at, number);

-- While `counterfoil copy` is filling the store, entries from the source may be deleted. The copy replaces them if the
-- source was restored from a backup between two rounds.
CREATE FUNCTION refuse_audit_change() RETURNS trigger
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.origin = 'sqlite' AND EXISTS (SELECT FROM deployment WHERE secret_fingerprint LIKE 'filling %') THEN
            RETURN OLD;
        END IF;
    END IF;
    RAISE EXCEPTION 'audit entries cannot be changed or deleted';
END
$$;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE ON audit
    FOR EACH ROW EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_is_not_truncated BEFORE TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
