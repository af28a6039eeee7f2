-- name: LOCK_TIMEOUT
-- Wait briefly for the lock, because the session of a killed copy ends shortly after its process.
SET lock_timeout = '5s'

-- name: LOCK
SELECT pg_advisory_lock(hashtext('counterfoil copy'))

-- name: CLAIM
INSERT INTO deployment (one, secret_fingerprint) VALUES (1, %s)

-- name: OPEN
UPDATE deployment SET secret_fingerprint = %s

-- name: RAISE_HORIZON
UPDATE horizon SET at = greatest(at, %s)

-- name: MONTH
SELECT request_month(%s)

-- name: KINDS
SELECT attname, atttypid::regtype::text FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0
