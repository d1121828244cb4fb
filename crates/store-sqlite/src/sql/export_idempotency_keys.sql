-- Idempotency keys after (?1, ?2), in order.
SELECT scope, key, body, answer, at
FROM idempotency_keys
WHERE (scope, key) > (?1, ?2)
ORDER BY scope, key
LIMIT ?3
