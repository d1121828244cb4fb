-- Records of a kind by key: those after ?2, from ?3 on, before ?4.
SELECT kind, key, rev, at, group_id, value
FROM records
WHERE kind = ?1 AND key > ?2 AND key >= ?3 AND (?4 IS NULL OR key < ?4)
ORDER BY key
LIMIT ?5
