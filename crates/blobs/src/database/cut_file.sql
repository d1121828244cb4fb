-- Sets the length of a file that was cut.
UPDATE jobhall.blob_files
SET bytes = $3,
    tail = coalesce((SELECT max(at) FROM jobhall.blob_chunks WHERE file = blob_files.id), 0)
WHERE name = $1 AND bytes = $2
