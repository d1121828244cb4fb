-- A stretch of the feed, and up to which number it was pruned; one row without a number if there is none to show.
SELECT pruned.value, row.n, row.at, row.entries
FROM (SELECT value FROM jobhall.meta WHERE name = 'feed_pruned_to') AS pruned
LEFT JOIN LATERAL (
    SELECT n, at, entries FROM jobhall.feed WHERE n > $1 ORDER BY n LIMIT $2
) AS row ON true
ORDER BY row.n
