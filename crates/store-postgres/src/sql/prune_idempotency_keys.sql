-- Deletes idempotency keys stored before this time. Returns the number of rows.
WITH gone AS (DELETE FROM jobhall.idempotency_keys WHERE at < $1 RETURNING 1) SELECT count(*) FROM gone
