-- Writes an idempotency key with its answer; an expired key is replaced.
INSERT INTO idempotency_keys (scope, key, body, answer, at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (scope, key) DO UPDATE SET body = excluded.body, answer = excluded.answer, at = excluded.at
