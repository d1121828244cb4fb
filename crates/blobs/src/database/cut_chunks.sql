-- Deletes the chunks after the cut.
DELETE FROM jobhall.blob_chunks
WHERE file = (SELECT id FROM jobhall.blob_files WHERE name = $1 AND bytes = $2) AND at >= $3
