-- Jobs of one stretch of ids, newest first. ?3 is a set of state codes as bits; NULL in ?4 to ?6
-- and in ?8 and ?9 does not restrict.
-- The stretch bounds the walk, so that a rare filter over millions of rows cannot hold a reader for long. The order of
-- the columns is that of row::job.
SELECT
    jobs.id, jobs.rev, jobs.state, jobs.claim, jobs.attempt, jobs.lost, jobs.snoozed, jobs.unaccepted,
    jobs.run_at, jobs.updated_at, jobs.lease, jobs.worker, jobs.assigned_at, jobs.accepted_at, jobs.started_at,
    jobs.behind, jobs.outcome, jobs.ended_at, jobs.cancel, jobs.again, jobs.error, jobs.value,
    specs.type, specs.key, specs.queue, specs.needs, specs.priority, specs.max_attempts, specs.backoff,
    specs.backoff_ms, specs.backoff_cap_ms, specs.retry_on, specs.created_at, specs.retry_of, specs.params
FROM jobs CROSS JOIN specs ON specs.id = jobs.id
WHERE jobs.id < ?1 AND jobs.id >= ?2 AND (?3 >> jobs.state) & 1 = 1
    AND (?4 IS NULL OR specs.type = ?4) AND (?5 IS NULL OR specs.key = ?5) AND (?6 IS NULL OR specs.queue = ?6)
    AND (?8 IS NULL OR specs.created_at >= ?8) AND (?9 IS NULL OR specs.created_at < ?9)
ORDER BY jobs.id DESC
LIMIT ?7
