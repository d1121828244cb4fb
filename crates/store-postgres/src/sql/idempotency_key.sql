-- The stored answers of idempotency keys.
SELECT stored.scope, stored.key, stored.body, stored.answer, stored.at
FROM unnest($1::text[], $2::text[]) AS wanted (scope, key)
JOIN jobhall.idempotency_keys AS stored ON stored.scope = wanted.scope AND stored.key = wanted.key
