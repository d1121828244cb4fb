-- Jobs of one range of ids, newest first. $3 is a set of state codes as bits. NULL in $4 to $6 and in $8 to $13
-- means no restriction. $12 is a tag in quotes; a tag contains no quotes. $13 has queues separated by commas, each a
-- name or a prefix followed by *; a name contains neither. The range bounds the scan, so that a rare filter over
-- millions of rows cannot occupy a connection for long.
-- `select_job` and `spec_columns` precede this.
FROM jobhall.jobs JOIN jobhall.specs ON specs.id = jobs.id
WHERE jobs.id < $1 AND jobs.id >= $2 AND ($3::bigint >> jobs.state) & 1 = 1
    AND specs.id < $1 AND specs.id >= $2
    AND ($4::text IS NULL OR specs.type = $4) AND ($5::text IS NULL OR specs.key = $5)
    AND ($6::text IS NULL OR specs.queue = $6)
    AND ($10::bigint IS NULL OR specs.group_id = $10) AND ($11::text IS NULL OR specs.owner = $11)
    AND ($12::text IS NULL OR strpos(specs.tags, $12) > 0)
    AND ($13::text IS NULL OR EXISTS (
        SELECT 1 FROM unnest(string_to_array($13, ',')) AS entry
        WHERE entry = specs.queue OR (right(entry, 1) = '*' AND starts_with(specs.queue, left(entry, -1)))))
    AND ($8::bigint IS NULL OR specs.created_at >= $8) AND ($9::bigint IS NULL OR specs.created_at < $9)
ORDER BY jobs.id DESC
LIMIT $7
