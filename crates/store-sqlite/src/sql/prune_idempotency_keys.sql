-- Submit keys stored before this moment.
DELETE FROM idempotency_keys WHERE at < ?1
