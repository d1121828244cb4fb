-- Makes a file young, never older, if it has so many bytes or any number.
UPDATE jobhall.blob_files
SET touched_ms = greatest(touched_ms, $3)
WHERE name = $1 AND bytes = coalesce($2, bytes)
