-- Open jobs of one block, in id order. Scanning a range of the primary key avoids an index on state, which every
-- claim and every end would have to update.
-- The first column is 1 for a new job: queued, nothing has happened to it, and its spec has no rarely used column.
-- row::new_job makes it from the other columns; any other job is read by itself. After a restart nearly all of
-- millions of jobs are new, and the 40 columns of which only a few are set would take most of the time.
SELECT
    CASE
        WHEN jobs.rev = 1 AND jobs.state = 1 AND jobs.claim = 0 AND jobs.hold IS NULL AND jobs.again IS NULL
            AND jobs.error IS NULL AND specs.retry_of IS NULL AND specs.uses IS NULL AND specs.avoid IS NULL
            AND specs.windows IS NULL AND specs.throttle_factor IS NULL AND specs.total_ms IS NULL
            AND specs.silence_ms IS NULL AND specs.after IS NULL AND specs.after_any IS NULL
            AND specs.parent IS NULL AND specs.group_id IS NULL AND specs.attached IS NULL
            AND specs.copy_of IS NULL AND specs.owner IS NULL AND specs.tags IS NULL AND specs.schedule IS NULL
            AND specs.at_most_once IS NULL
        THEN 1
    END,
    jobs.id, jobs.run_at, jobs.updated_at,
    specs.type, specs.key, specs.queue, specs.needs, specs.priority, specs.max_attempts, specs.backoff,
    specs.backoff_ms, specs.backoff_cap_ms, specs.retry_on, specs.created_at, specs.params
FROM jobs CROSS JOIN specs ON specs.id = jobs.id
WHERE jobs.id BETWEEN ?1 AND ?2 AND jobs.state < 8
ORDER BY jobs.id
LIMIT ?3
