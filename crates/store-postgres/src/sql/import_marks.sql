-- Numbers that are given once: ids, feed rows, acts.
SELECT
    (SELECT value FROM jobhall.meta WHERE name = 'last_id'),
    (SELECT value FROM jobhall.meta WHERE name = 'feed_pruned_to'),
    (SELECT value FROM jobhall.meta WHERE name = 'last_act')
