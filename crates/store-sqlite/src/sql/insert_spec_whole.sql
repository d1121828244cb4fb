-- Inserts the spec of a new job with all columns.
INSERT INTO specs (
    id, type, key, queue, needs, priority, max_attempts, backoff, backoff_ms, backoff_cap_ms, retry_on,
    created_at, retry_of, params,
    uses, avoid, windows, throttle_factor, total_ms, silence_ms, after, after_any, parent, group_id, attached,
    copy_of, owner, tags, schedule, at_most_once
) VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14,
    ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30
)
