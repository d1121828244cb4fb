-- Inserts the spec of a new job whose rarely used columns are all NULL.
INSERT INTO specs (
    id, type, key, queue, needs, priority, max_attempts, backoff, backoff_ms, backoff_cap_ms, retry_on,
    created_at, retry_of, params
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
