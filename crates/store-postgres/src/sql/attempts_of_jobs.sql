-- The newest $2 ended attempts of each of these jobs, oldest first.
SELECT claim, lease, worker, assigned_at, accepted_at, started_at, ended_at, outcome, error, progress, newest.job
FROM unnest($1::bigint[]) AS wanted (job)
CROSS JOIN LATERAL (
    SELECT * FROM jobhall.attempts WHERE attempts.job = wanted.job ORDER BY claim DESC LIMIT $2
) AS newest
ORDER BY newest.job, claim
