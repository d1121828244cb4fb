-- Jobs of one range of ids, newest first. ?3 is a set of state codes as bits. NULL in ?4 to ?6 and in ?8 to ?12
-- means no restriction. ?12 is a tag in quotes; a tag contains no quotes. The range bounds the scan, so that a rare
-- filter over millions of rows cannot occupy a reader for long. row::job reads the columns in this order.
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
FROM jobs CROSS JOIN specs ON specs.id = jobs.id
WHERE jobs.id < ?1 AND jobs.id >= ?2 AND (?3 >> jobs.state) & 1 = 1
    AND (?4 IS NULL OR specs.type = ?4) AND (?5 IS NULL OR specs.key = ?5) AND (?6 IS NULL OR specs.queue = ?6)
    AND (?10 IS NULL OR specs.group_id = ?10) AND (?11 IS NULL OR specs.owner = ?11)
    AND (?12 IS NULL OR instr(specs.tags, ?12) > 0)
    AND (?8 IS NULL OR specs.created_at >= ?8) AND (?9 IS NULL OR specs.created_at < ?9)
ORDER BY jobs.id DESC
LIMIT ?7
