-- Submit keys that are believed to be new. One that is known leaves its row out; then the count tells.
WITH inserted AS (
    INSERT INTO jobhall.idempotency_keys (scope, key, body, answer, at)
    SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[], $4::text[], $5::bigint[])
    ON CONFLICT DO NOTHING
    RETURNING 1
)
SELECT jobhall.expect((SELECT count(*) FROM inserted), $6)
