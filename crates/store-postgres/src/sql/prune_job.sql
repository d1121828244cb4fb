-- Deletes completed jobs with all rows that refer to them; an open job is kept. Returns the number of jobs.
WITH gone AS (DELETE FROM jobhall.jobs WHERE id = ANY($1::bigint[]) AND state >= 8 RETURNING id),
    specs AS (DELETE FROM jobhall.specs USING gone WHERE specs.id = gone.id),
    attempts AS (DELETE FROM jobhall.attempts USING gone WHERE attempts.job = gone.id),
    links AS (DELETE FROM jobhall.links USING gone WHERE links.parent = gone.id)
SELECT count(*) FROM gone
