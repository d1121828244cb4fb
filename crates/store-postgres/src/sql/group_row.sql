-- Groups by id. The order of the columns is that of groups::group.
SELECT id, rev, name, owner, tags, retry_of, created_at, closed, cancel, ended_at, verdict, counts
FROM jobhall.groups
WHERE id = ANY($1::bigint[])
