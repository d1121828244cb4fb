-- The second hot path: `complete_job` for a job whose rarely used columns are all NULL.
UPDATE jobs SET
    rev = ?3, state = ?4, claim = ?5, attempt = ?6, lost = ?7, snoozed = ?8, unaccepted = ?9,
    run_at = ?10, updated_at = ?11, lease = ?12, worker = ?13, assigned_at = ?14, accepted_at = ?15,
    started_at = ?16, cancel = NULL, again = NULL, error = NULL,
    hold = NULL, depends = NULL, waits = NULL, waited_ms = NULL, early = NULL, progress = NULL,
    behind = NULL, outcome = ?21, ended_at = ?22, value = ?23, live_key = NULL, next_key = NULL
WHERE id = ?1 AND rev = ?2
    AND (live_key IS NULL OR NOT EXISTS (SELECT 1 FROM jobs AS successor WHERE successor.next_key = jobs.live_key))
