-- The newest success of a (type, key) that ended at ?3 or later and has a higher id than ?4. Scans the key's jobs from the newest id; retention
-- bounds their number, and the first match ends the scan. CROSS JOIN makes SQLite scan the index first, in its
-- order.
SELECT jobs.id
FROM specs CROSS JOIN jobs ON jobs.id = specs.id
WHERE specs.type = ?1 AND specs.key = ?2 AND jobs.state = 8 AND jobs.ended_at >= ?3 AND specs.id > ?4
ORDER BY specs.id DESC
LIMIT 1
