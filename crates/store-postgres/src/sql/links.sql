-- Links in order, after ($1, $2).
SELECT parent, call, job
FROM jobhall.links
WHERE (parent, call) > ($1::bigint, $2::text)
ORDER BY parent, call
LIMIT $3
