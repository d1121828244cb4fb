-- Jobs of one range of ids, newest first. ?3 is a set of state codes as bits. NULL in ?4 to ?6 and in ?8 to ?13
-- means no restriction. ?12 is a tag in quotes; a tag contains no quotes. ?13 is a JSON array of queues, each a name or
-- a prefix followed by *; a name contains no *. The range bounds the scan, so that a rare filter over millions of rows
-- cannot occupy a reader for long.
-- `select_job` and `spec_columns` precede this.
FROM jobs CROSS JOIN specs ON specs.id = jobs.id
WHERE jobs.id < ?1 AND jobs.id >= ?2 AND (?3 >> jobs.state) & 1 = 1
    AND (?4 IS NULL OR specs.type = ?4) AND (?5 IS NULL OR specs.key = ?5) AND (?6 IS NULL OR specs.queue = ?6)
    AND (?10 IS NULL OR specs.group_id = ?10) AND (?11 IS NULL OR specs.owner = ?11)
    AND (?12 IS NULL OR instr(specs.tags, ?12) > 0)
    AND (?13 IS NULL OR EXISTS (
        SELECT 1 FROM json_each(?13)
        WHERE value = specs.queue
            OR (substr(value, -1) = '*' AND substr(specs.queue, 1, length(value) - 1) = rtrim(value, '*'))))
    AND (?8 IS NULL OR specs.created_at >= ?8) AND (?9 IS NULL OR specs.created_at < ?9)
ORDER BY jobs.id DESC
LIMIT ?7
