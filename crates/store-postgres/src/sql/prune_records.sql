-- Deletes records of a kind that were written before this time. Returns the number of rows.
WITH gone AS (DELETE FROM jobhall.records WHERE kind = $1 AND at < $2 RETURNING 1) SELECT count(*) FROM gone
