-- One whole job. row::job reads the columns in this order.
SELECT
    jobs.id, jobs.rev, jobs.state, jobs.claim, jobs.attempt, jobs.lost, jobs.snoozed, jobs.unaccepted,
    jobs.run_at, jobs.updated_at, jobs.lease, jobs.worker, jobs.assigned_at, jobs.accepted_at, jobs.started_at,
    jobs.behind, jobs.outcome, jobs.ended_at, jobs.cancel, jobs.again, jobs.error, jobs.value,
    jobs.hold, jobs.depends, jobs.waits, jobs.waited_ms, jobs.early,
    specs.type, specs.key, specs.queue, specs.needs, specs.priority, specs.max_attempts, specs.backoff,
    specs.backoff_ms, specs.backoff_cap_ms, specs.retry_on, specs.created_at, specs.retry_of, specs.params,
    specs.uses, specs.avoid, specs.windows, specs.throttle_factor, specs.total_ms, specs.silence_ms, specs.after,
    specs.after_any, specs.parent, specs.group_id, specs.attached, specs.copy_of, specs.owner, specs.tags,
    specs.schedule
FROM jobs JOIN specs ON specs.id = jobs.id
WHERE jobs.id = ?1
