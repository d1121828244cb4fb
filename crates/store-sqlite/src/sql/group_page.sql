-- Groups below ?1, newest first. groups::group reads the columns in this order.
SELECT id, rev, name, owner, tags, retry_of, created_at, closed, cancel, ended_at, verdict, counts, fails
FROM groups
WHERE id < ?1
ORDER BY id DESC
LIMIT ?2
