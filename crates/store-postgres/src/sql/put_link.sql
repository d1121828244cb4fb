-- Writes sub-jobs under the names that their parents gave them.
INSERT INTO jobhall.links (parent, call, job)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[])
ON CONFLICT (parent, call) DO UPDATE SET job = excluded.job
