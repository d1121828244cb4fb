-- Jobs of one (type, key) below an id, newest first. CROSS JOIN makes SQLite scan the index of both first, in its order.
-- `select_job` and `spec_columns` precede this.
FROM specs CROSS JOIN jobs ON jobs.id = specs.id
WHERE specs.type = ?1 AND specs.key = ?2 AND specs.id < ?3
ORDER BY specs.id DESC
LIMIT ?4
