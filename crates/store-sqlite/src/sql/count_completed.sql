-- The number of completed jobs above ?1 and up to ?2 by type and queue, except those in the JSON array ?3.
SELECT specs.type, specs.queue, count(*)
FROM jobs CROSS JOIN specs ON specs.id = jobs.id
WHERE jobs.id > ?1 AND jobs.id <= ?2 AND jobs.state >= 8 AND jobs.id NOT IN (SELECT value FROM json_each(?3))
GROUP BY specs.type, specs.queue
