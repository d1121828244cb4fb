-- Deletes idempotency keys stored before this time.
DELETE FROM idempotency_keys WHERE at < ?1
