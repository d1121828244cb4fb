-- Goes on leading, and is seen; no row when another has taken it.
WITH renewed AS (
    UPDATE jobhall.leadership SET until = clock_timestamp() + $2::bigint * interval '1 millisecond' WHERE epoch = $1
    RETURNING node, url
)
SELECT jobhall.seen(node, url, $3) FROM renewed
