-- The first $2 jobs above $1, oldest id first, with what retention asks of completed ones. The last column is whether the
-- job is the newest success of its key.
SELECT jobs.id, jobs.state, jobs.ended_at, specs.type, specs.queue, specs.created_at, specs.parent, specs.group_id,
    jobs.state = 8 AND specs.key IS NOT NULL AND NOT EXISTS (
        SELECT 1
        FROM jobhall.specs AS later JOIN jobhall.jobs AS ended ON ended.id = later.id
        WHERE later.type = specs.type AND later.key = specs.key AND later.key IS NOT NULL AND later.id > specs.id
            AND ended.state = 8
    )
FROM jobhall.jobs JOIN jobhall.specs ON specs.id = jobs.id
WHERE jobs.id > $1
ORDER BY jobs.id
LIMIT $2
