-- Jobs of one (type, key) below an id, newest first, by the index of both.
-- `select_job` and `spec_columns` precede this.
FROM jobhall.specs JOIN jobhall.jobs ON jobs.id = specs.id
WHERE specs.type = $1 AND specs.key = $2 AND specs.key IS NOT NULL AND specs.id < $3
ORDER BY specs.id DESC
LIMIT $4
