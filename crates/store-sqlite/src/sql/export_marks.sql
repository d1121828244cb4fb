-- The high-water marks of numbers that are never reused: ids, feed rows, audit entries.
SELECT
    (SELECT value FROM meta WHERE name = 'last_id'),
    max(
        (SELECT coalesce(max(n), 0) FROM feed),
        (SELECT value FROM meta WHERE name = 'feed_pruned_to')
    ),
    (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'audit')
