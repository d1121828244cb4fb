-- Appends to a file: to its last chunk while that is small enough to be stored inline, otherwise as a new chunk. If
-- the stored length differs, no file row matches and the insert of the chunk fails.
WITH file AS (
    UPDATE jobhall.blob_files
    SET bytes = $2 + length($3),
        tail = CASE WHEN $2 - tail + length($3) <= $5 THEN tail ELSE $2 END,
        touched_ms = greatest(touched_ms, coalesce($4, (extract(epoch FROM clock_timestamp()) * 1000)::bigint))
    WHERE name = $1 AND bytes = $2
    RETURNING id, tail
)
INSERT INTO jobhall.blob_chunks (file, at, data)
VALUES ((SELECT id FROM file), coalesce((SELECT tail FROM file), $2), $3)
ON CONFLICT (file, at) DO UPDATE SET data = blob_chunks.data || excluded.data
