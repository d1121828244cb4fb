-- The number of completed jobs above $1 and up to $2 by type and queue, except those in $3.
SELECT specs.type, specs.queue, count(*)
FROM jobhall.jobs JOIN jobhall.specs ON specs.id = jobs.id
WHERE jobs.id > $1 AND jobs.id <= $2 AND jobs.state >= 8 AND jobs.id <> ALL ($3::bigint[])
GROUP BY specs.type, specs.queue
