-- What a writer reads when it starts: the highest feed number ever used, and the numbers of the last commit and of
-- the last audit entry.
SELECT
    greatest(
        (SELECT coalesce(max(n), 0) FROM jobhall.feed),
        (SELECT value FROM jobhall.meta WHERE name = 'feed_pruned_to')
    ),
    (SELECT value FROM jobhall.meta WHERE name = 'commits'),
    (SELECT value FROM jobhall.meta WHERE name = 'last_act')
