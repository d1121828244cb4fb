-- The jobs of a group in id order, above ?2. CROSS JOIN makes SQLite scan the index first, in its order.
SELECT specs.id, specs.copy_of, specs.attached, jobs.state
FROM specs CROSS JOIN jobs ON jobs.id = specs.id
WHERE specs.group_id = ?1 AND specs.id > ?2
ORDER BY specs.id
LIMIT ?3
