-- name: HORIZON
SELECT at FROM horizon

-- name: FINGERPRINT
SELECT secret_fingerprint FROM deployment

-- name: NEWEST_STAMP
SELECT max((SELECT max(updated_at) FROM bills WHERE shop = shops.number)) FROM shops

-- name: STEADY
SELECT boot_id, shift FROM steady
