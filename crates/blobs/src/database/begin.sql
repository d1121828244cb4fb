-- Writes to a file that is empty or does not exist yet. If the stored length differs, no file row matches and the
-- insert of the chunk fails.
WITH file AS (
    INSERT INTO jobhall.blob_files (name, bytes, tail, touched_ms)
    VALUES ($1, length($3), 0, coalesce($4, (extract(epoch FROM clock_timestamp()) * 1000)::bigint))
    ON CONFLICT (name) DO UPDATE SET bytes = excluded.bytes, tail = 0, touched_ms = greatest(blob_files.touched_ms, excluded.touched_ms)
    WHERE blob_files.bytes = $2
    RETURNING id
)
INSERT INTO jobhall.blob_chunks (file, at, data)
VALUES ((SELECT id FROM file), $2, $3)
