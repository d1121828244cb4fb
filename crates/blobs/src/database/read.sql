-- Reads a limited number of bytes of a file from an offset, beginning with the chunk that contains the offset.
SELECT
    greatest(at, $2) AS from_at,
    substring(data FROM (greatest($2 - at, 0) + 1)::int FOR ($2 + $3 - greatest(at, $2))::int) AS part
FROM jobhall.blob_chunks
WHERE file = $1
    AND at >= coalesce((SELECT max(at) FROM jobhall.blob_chunks WHERE file = $1 AND at <= $2), 0)
    AND at < $2 + $3
ORDER BY at
