-- Deletes audit entries older than this time. Returns the number of rows.
WITH gone AS (DELETE FROM jobhall.audit WHERE at < $1 RETURNING 1) SELECT count(*) FROM gone
