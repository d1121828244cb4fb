-- The highest feed number ever used.
SELECT max((SELECT coalesce(max(n), 0) FROM feed), (SELECT value FROM meta WHERE name = 'feed_pruned_to'))
