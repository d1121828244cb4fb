-- What a writer must know when it begins: the highest feed number ever given, the number of the last commit and of the
-- last act.
SELECT
    greatest(
        (SELECT coalesce(max(n), 0) FROM jobhall.feed),
        (SELECT value FROM jobhall.meta WHERE name = 'feed_pruned_to')
    ),
    (SELECT value FROM jobhall.meta WHERE name = 'commits'),
    (SELECT value FROM jobhall.meta WHERE name = 'last_act')
