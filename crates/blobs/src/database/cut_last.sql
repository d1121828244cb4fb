-- Shortens the chunk that contains the cut.
UPDATE jobhall.blob_chunks
SET data = substring(data FROM 1 FOR ($3 - at)::int)
WHERE file = (SELECT id FROM jobhall.blob_files WHERE name = $1 AND bytes = $2)
    AND at < $3
    AND at + length(data) > $3
