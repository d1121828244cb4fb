-- The stored answer of an idempotency key.
SELECT body, answer, at FROM idempotency_keys WHERE scope = ?1 AND key = ?2
