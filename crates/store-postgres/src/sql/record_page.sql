-- Records of a kind, or of a kind and a group ($6), by key: those after $2, from $3 on, before $4, at most $5. A value
-- that has $7 bytes or more of other values before it is not read.
SELECT kind, key, rev, at, group_id, CASE WHEN before < $7::bigint THEN value END
FROM (
    SELECT kind, key, rev, at, group_id, value, sum(bytes) OVER (ORDER BY key) - bytes AS before
    FROM jobhall.records
    WHERE kind = $1 AND key > $2 AND key >= $3 AND ($4::text IS NULL OR key < $4)
        AND ($6::bigint IS NULL OR group_id = $6)
    ORDER BY key
    LIMIT $5
) AS found
ORDER BY key
