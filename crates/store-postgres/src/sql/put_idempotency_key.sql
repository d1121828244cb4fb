-- Writes idempotency keys with their answers; an expired key is replaced.
INSERT INTO jobhall.idempotency_keys (scope, key, body, answer, at)
SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[], $4::text[], $5::bigint[])
ON CONFLICT (scope, key) DO UPDATE SET body = excluded.body, answer = excluded.answer, at = excluded.at
