-- The highest feed number ever used.
SELECT greatest(
    (SELECT coalesce(max(n), 0) FROM jobhall.feed),
    (SELECT value FROM jobhall.meta WHERE name = 'feed_pruned_to')
)
