-- Completed jobs, newest id first, below ?1. CROSS JOIN makes SQLite scan the narrow rows first.
SELECT jobs.id, specs.type, specs.key, jobs.state, jobs.ended_at, specs.parent, specs.group_id
FROM jobs CROSS JOIN specs ON specs.id = jobs.id
WHERE jobs.id < ?1 AND jobs.state >= 8
ORDER BY jobs.id DESC
LIMIT ?2
