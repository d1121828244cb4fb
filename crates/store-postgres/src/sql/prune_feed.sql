-- Feed rows from the oldest number on while they are older than $1, so that no hole opens. Tells how many.
WITH kept AS (SELECT min(n) AS n FROM jobhall.feed WHERE at >= $1),
    gone AS (DELETE FROM jobhall.feed USING kept WHERE kept.n IS NULL OR feed.n < kept.n RETURNING feed.n),
    pruned AS (
        UPDATE jobhall.meta SET value = last.n FROM (SELECT max(n) AS n FROM gone) AS last
        WHERE name = 'feed_pruned_to' AND last.n IS NOT NULL
    )
SELECT count(*) FROM gone
