-- Deletes completed jobs with all rows that refer to them; an open job is kept. Returns the jobs in the order of $1.
WITH gone AS (DELETE FROM jobhall.jobs WHERE id = ANY($1::bigint[]) AND state >= 8 RETURNING id),
    specs AS (
        DELETE FROM jobhall.specs USING gone WHERE specs.id = gone.id RETURNING specs.id, specs.type, specs.queue
    ),
    attempts AS (DELETE FROM jobhall.attempts USING gone WHERE attempts.job = gone.id),
    links AS (DELETE FROM jobhall.links USING gone WHERE links.parent = gone.id)
SELECT id, type, queue FROM specs ORDER BY array_position($1::bigint[], id)
