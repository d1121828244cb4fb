-- Stores complete files that do not exist, with their chunks. If one of them exists, the insert fails.
WITH file AS (
    INSERT INTO jobhall.blob_files (name, bytes, tail, touched_ms)
    SELECT given.name, given.bytes, given.tail, $4
    FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS given (name, bytes, tail)
    RETURNING id, name
)
INSERT INTO jobhall.blob_chunks (file, at, data)
SELECT file.id, part.at, part.data
FROM unnest($5::text[], $6::bigint[], $7::bytea[]) AS part (name, at, data)
JOIN file ON file.name = part.name
