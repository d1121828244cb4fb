-- What a idempotency key stands for.
SELECT body, answer, at FROM idempotency_keys WHERE scope = ?1 AND key = ?2
