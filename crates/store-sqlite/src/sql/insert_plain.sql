-- A new job's narrow row, if there is nothing particular about it: see `insert_job`.
INSERT INTO jobs (
    id, rev, state, claim, attempt, lost, snoozed, unaccepted, run_at, updated_at,
    lease, worker, assigned_at, accepted_at, started_at
) VALUES (
    ?1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
    ?12, ?13, ?14, ?15, ?16
) ON CONFLICT DO NOTHING
