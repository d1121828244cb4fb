-- The jobs of a group in id order, above $2.
SELECT specs.id, specs.copy_of, specs.attached, jobs.state
FROM jobhall.specs JOIN jobhall.jobs ON jobs.id = specs.id
WHERE specs.group_id = $1 AND specs.group_id IS NOT NULL AND specs.id > $2
ORDER BY specs.id
LIMIT $3
