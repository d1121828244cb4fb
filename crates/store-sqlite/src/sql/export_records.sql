-- Records in order, after (?1, ?2).
SELECT kind, key, rev, at, group_id, value
FROM records
WHERE (kind, key) > (?1, ?2)
ORDER BY kind, key
