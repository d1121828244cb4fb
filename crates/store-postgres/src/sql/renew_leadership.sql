-- Renews the leadership and updates when the node was last seen; returns no row if another node has taken the
-- leadership.
WITH renewed AS (
    UPDATE jobhall.leadership SET until = clock_timestamp() + $2::bigint * interval '1 millisecond' WHERE epoch = $1
    RETURNING node, url
)
SELECT jobhall.seen(node, url, $3) FROM renewed
