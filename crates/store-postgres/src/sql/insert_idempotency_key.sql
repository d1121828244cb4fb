-- Inserts idempotency keys that are expected to be new. An existing key is skipped; the row count then differs from
-- the expected one.
WITH inserted AS (
    INSERT INTO jobhall.idempotency_keys (scope, key, body, answer, at)
    SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[], $4::text[], $5::bigint[])
    ON CONFLICT DO NOTHING
    RETURNING 1
)
SELECT jobhall.expect((SELECT count(*) FROM inserted), $6)
