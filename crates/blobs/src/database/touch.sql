-- Raises the touch time of a file, never lowers it, if the file has the given length or no length is given.
UPDATE jobhall.blob_files
SET touched_ms = greatest(touched_ms, $3)
WHERE name = $1 AND bytes = coalesce($2, bytes)
