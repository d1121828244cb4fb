-- The newest success of a (type, key) that ended at ?3 or later. Walks the key's jobs from the newest id: retention
-- bounds how many there are, and the first hit ends the walk. CROSS JOIN keeps the index first, in its order.
SELECT jobs.id
FROM specs CROSS JOIN jobs ON jobs.id = specs.id
WHERE specs.type = ?1 AND specs.key = ?2 AND jobs.state = 8 AND jobs.ended_at >= ?3
ORDER BY specs.id DESC
LIMIT 1
