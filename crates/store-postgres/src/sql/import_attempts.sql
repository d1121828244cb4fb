-- The ended attempts of jobs, oldest first. The last column is the job's id.
SELECT claim, lease, worker, assigned_at, accepted_at, started_at, ended_at, outcome, error, progress, job
FROM jobhall.attempts
WHERE job = ANY($1::bigint[])
ORDER BY job, claim
