-- The spec of a job, for a caller that does not have it. row::spec reads the columns in this order.
SELECT
    type, key, queue, needs, priority, max_attempts, backoff, backoff_ms, backoff_cap_ms, retry_on, created_at,
    retry_of, params,
    uses, avoid, windows, throttle_factor, total_ms, silence_ms, after,
    after_any, parent, group_id, attached, copy_of, owner, tags,
    schedule
FROM specs
WHERE id = ?1
