-- The high-water marks of numbers that are never reused: ids, feed rows, audit entries.
SELECT
    (SELECT value FROM jobhall.meta WHERE name = 'last_id'),
    (SELECT value FROM jobhall.meta WHERE name = 'feed_pruned_to'),
    (SELECT value FROM jobhall.meta WHERE name = 'last_act')
