-- Raises the touch times of files, and fails unless all of them exist with these lengths.
WITH touched AS (
    UPDATE jobhall.blob_files
    SET touched_ms = greatest(touched_ms, $3)
    FROM unnest($1::text[], $2::bigint[]) AS given (name, bytes)
    WHERE blob_files.name = given.name AND blob_files.bytes = given.bytes
    RETURNING 1
)
SELECT 1 / (SELECT (count(*) = cardinality($1))::int FROM touched)
