-- Creates an empty file.
INSERT INTO jobhall.blob_files (name, bytes, tail, touched_ms)
VALUES ($1, 0, 0, coalesce($2, (extract(epoch FROM clock_timestamp()) * 1000)::bigint))
ON CONFLICT (name) DO NOTHING
