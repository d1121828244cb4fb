-- The ended attempts of a job, oldest first.
SELECT claim, lease, worker, assigned_at, accepted_at, started_at, ended_at, outcome, error
FROM jobhall.attempts
WHERE job = $1
ORDER BY claim
