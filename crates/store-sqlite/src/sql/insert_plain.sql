-- `insert_job` for a job whose rarely used columns are all NULL.
INSERT INTO jobs (
    id, rev, state, claim, attempt, lost, snoozed, unaccepted, run_at, updated_at,
    lease, worker, assigned_at, accepted_at, started_at
) VALUES (
    ?1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
    ?12, ?13, ?14, ?15, ?16
) ON CONFLICT DO NOTHING
