-- The first ?2 jobs above ?1, oldest id first, with what retention asks of completed ones. The last column is whether the
-- job is the newest success of its key. CROSS JOIN makes SQLite scan the narrow rows first, and the index of the key.
SELECT jobs.id, jobs.state, jobs.ended_at, specs.type, specs.queue, specs.created_at, specs.parent, specs.group_id,
    jobs.state = 8 AND specs.key IS NOT NULL AND NOT EXISTS (
        SELECT 1
        FROM specs AS later CROSS JOIN jobs AS ended ON ended.id = later.id
        WHERE later.type = specs.type AND later.key = specs.key AND later.id > specs.id AND ended.state = 8
    )
FROM jobs CROSS JOIN specs ON specs.id = jobs.id
WHERE jobs.id > ?1
ORDER BY jobs.id
LIMIT ?2
