-- Records of a kind and a group (?6) by key: those after ?2, from ?3 on, before ?4.
SELECT kind, key, rev, at, group_id, value
FROM records
WHERE kind = ?1 AND group_id = ?6 AND key > ?2 AND key >= ?3 AND (?4 IS NULL OR key < ?4)
ORDER BY key
LIMIT ?5
