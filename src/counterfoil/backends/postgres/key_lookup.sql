-- name: ALL
SELECT key_id, secret_digest, body FROM keys

-- name: HORIZON
SELECT at FROM horizon

-- name: GENERATION
SELECT generation.number, generation.at, latest.number, latest.oldest
FROM generation, (SELECT number, oldest FROM migrations ORDER BY number DESC LIMIT 1) AS latest,
    (SELECT count(*) FROM (SELECT FROM keys LIMIT 1) AS one) AS readable
