-- Deletes feed rows older than $1, from the lowest number on, so that the numbers have no gap. Returns the number
-- of rows.
WITH kept AS (SELECT min(n) AS n FROM jobhall.feed WHERE at >= $1),
    gone AS (DELETE FROM jobhall.feed USING kept WHERE kept.n IS NULL OR feed.n < kept.n RETURNING feed.n),
    pruned AS (
        UPDATE jobhall.meta SET value = last.n FROM (SELECT max(n) AS n FROM gone) AS last
        WHERE name = 'feed_pruned_to' AND last.n IS NOT NULL
    )
SELECT count(*) FROM gone
