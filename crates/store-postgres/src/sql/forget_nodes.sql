-- Deletes nodes that were not seen for $1 milliseconds.
DELETE FROM jobhall.nodes WHERE seen < clock_timestamp() - $1::bigint * interval '1 millisecond'
