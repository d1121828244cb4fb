-- Groups by id. groups::group reads the columns in this order.
SELECT id, rev, name, owner, tags, retry_of, created_at, closed, cancel, ended_at, verdict, counts, fails
FROM jobhall.groups
WHERE id = ANY($1::bigint[])
