-- Groups below $1 that have not ended, newest first. groups::group reads the columns in this order.
SELECT id, rev, name, owner, tags, retry_of, created_at, closed, cancel, ended_at, verdict, counts, fails
FROM jobhall.groups
WHERE open AND id < $1
ORDER BY id DESC
LIMIT $2
