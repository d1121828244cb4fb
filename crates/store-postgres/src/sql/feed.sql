-- A range of feed rows, and the number up to which the feed was pruned; a single row without a number if the range
-- is empty.
SELECT pruned.value, row.n, row.at, row.entries
FROM (SELECT value FROM jobhall.meta WHERE name = 'feed_pruned_to') AS pruned
LEFT JOIN LATERAL (
    SELECT n, at, entries FROM jobhall.feed WHERE n > $1 ORDER BY n LIMIT $2
) AS row ON true
ORDER BY row.n
