-- Groups below ?1 that have not ended, newest first (the rowid is the index's last column). groups::group reads the
-- columns in this order.
SELECT id, rev, name, owner, tags, retry_of, created_at, closed, cancel, ended_at, verdict, counts, fails
FROM groups
WHERE open = 1 AND id < ?1
ORDER BY id DESC
LIMIT ?2
