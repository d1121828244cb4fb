-- The head of a statement that returns whole jobs: `spec_columns` follows. row::job reads the columns in this order.
SELECT
    jobs.id, jobs.rev, jobs.state, jobs.claim, jobs.attempt, jobs.lost, jobs.snoozed, jobs.unaccepted, jobs.run_at,
    jobs.updated_at, jobs.lease, jobs.worker, jobs.assigned_at, jobs.accepted_at, jobs.started_at, jobs.behind,
    jobs.outcome, jobs.ended_at, jobs.cancel, jobs.again, jobs.error, jobs.value, jobs.hold, jobs.depends,
    jobs.waits, jobs.waited_ms, jobs.early, jobs.progress,
