-- One record.
SELECT kind, key, rev, at, group_id, value FROM records WHERE kind = ?1 AND key = ?2
