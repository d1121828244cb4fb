-- Links in order, after (?1, ?2).
SELECT parent, call, job
FROM links
WHERE (parent, call) > (?1, ?2)
ORDER BY parent, call
LIMIT ?3
