-- Ended attempts of a job, newest first.
SELECT claim, lease, worker, assigned_at, accepted_at, started_at, ended_at, outcome, error, progress
FROM jobhall.attempts
WHERE job = $1
ORDER BY claim DESC
LIMIT $2 OFFSET $3
