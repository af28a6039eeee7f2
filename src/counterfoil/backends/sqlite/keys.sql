-- name: ALL
SELECT key_id, secret_digest, body FROM keys

-- name: ONE
SELECT body FROM keys WHERE key_id = ?

-- name: ADD
INSERT INTO keys (key_id, secret_digest, body) VALUES (?, ?, ?)

-- name: CHANGE
UPDATE keys SET body = ? WHERE key_id = ?

-- name: GENERATION
SELECT number FROM generation

-- name: NEXT_GENERATION
UPDATE generation SET number = number + 1

-- name: REVOCATIONS
SELECT key_id, at FROM revocations

-- name: REMEMBER
INSERT OR IGNORE INTO revocations (key_id, at) VALUES (?, ?)

-- name: APPEND
INSERT INTO audit ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
