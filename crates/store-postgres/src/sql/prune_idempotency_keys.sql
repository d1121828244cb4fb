-- Submit keys stored before this moment. Tells how many.
WITH gone AS (DELETE FROM jobhall.idempotency_keys WHERE at < $1 RETURNING 1) SELECT count(*) FROM gone
