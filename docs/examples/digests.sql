-- Digests without `latestUpdatedAt`, from a table `bills` with the columns of docs/in-the-copy.md.
-- Tests run the first two over a pulled copy, and the other two translated to DuckDB's SQL.

-- duckdb
SELECT shop_id, bill_date AS day, count(*) AS bills, count(*) FILTER (status = 'void') AS voids,
    coalesce(sum(net), 0) AS net, coalesce(sum(tip), 0) AS tip,
    CAST(sum(CAST('0x' || substr(md5(id || '|' || coalesce(CAST(epoch_ms(updated_at) AS VARCHAR), '')), 1, 15) AS HUGEINT)) AS VARCHAR) AS hash
FROM bills GROUP BY ALL ORDER BY shop_id, day NULLS FIRST;

-- postgresql
SELECT shop_id, bill_date AS day, count(*) AS bills, count(*) FILTER (WHERE status = 'void') AS voids,
    coalesce(sum(net), 0) AS net, coalesce(sum(tip), 0) AS tip,
    sum(('x' || substr(md5(id || '|' || coalesce(round(extract(epoch FROM updated_at) * 1000)::bigint::text, '')), 1, 15))::bit(60)::bigint)::text AS hash
FROM bills GROUP BY shop_id, bill_date ORDER BY shop_id COLLATE "C", day NULLS FIRST;

-- bigquery
SELECT shop_id, bill_date AS day, COUNT(*) AS bills, COUNTIF(status = 'void') AS voids,
    COALESCE(SUM(net), 0) AS net, COALESCE(SUM(tip), 0) AS tip,
    CAST(SUM(CAST(CAST(CONCAT('0x', SUBSTR(TO_HEX(MD5(CONCAT(id, '|', COALESCE(CAST(UNIX_MILLIS(updated_at) AS STRING), '')))), 1, 15)) AS INT64) AS NUMERIC)) AS STRING) AS hash
FROM bills GROUP BY shop_id, bill_date ORDER BY shop_id, day;

-- snowflake
SELECT shop_id, bill_date AS day, COUNT(*) AS bills, COUNT_IF(status = 'void') AS voids,
    COALESCE(SUM(net), 0) AS net, COALESCE(SUM(tip), 0) AS tip,
    TO_VARCHAR(SUM(TO_NUMBER(SUBSTR(MD5(id || '|' || COALESCE(TO_VARCHAR(DATE_PART(EPOCH_MILLISECOND, updated_at)), '')), 1, 15), 'XXXXXXXXXXXXXXX'))) AS hash
FROM bills GROUP BY shop_id, bill_date ORDER BY shop_id, day NULLS FIRST;
