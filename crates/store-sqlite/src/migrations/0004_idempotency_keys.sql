-- Idempotency keys have the field's name.

ALTER TABLE submit_keys RENAME TO idempotency_keys;
DROP INDEX submit_keys_at;
-- Finds the forgotten ones without a walk over a day's keys in the writer. Only submits with a key pay for it.
CREATE INDEX idempotency_keys_at ON idempotency_keys (at);
