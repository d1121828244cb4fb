-- Submit keys with their answers, in place of those that count as forgotten.
INSERT INTO jobhall.idempotency_keys (scope, key, body, answer, at)
SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[], $4::text[], $5::bigint[])
ON CONFLICT (scope, key) DO UPDATE SET body = excluded.body, answer = excluded.answer, at = excluded.at
