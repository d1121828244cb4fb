-- The end of a job, which releases its key. Matches no row if the rev differs, or if a successor waits for the key:
-- then the unit must move the successor too.
UPDATE jobs SET
    rev = ?3, state = ?4, claim = ?5, attempt = ?6, lost = ?7, snoozed = ?8, unaccepted = ?9,
    run_at = ?10, updated_at = ?11, lease = ?12, worker = ?13, assigned_at = ?14, accepted_at = ?15,
    started_at = ?16, cancel = ?17, again = ?18, error = ?19,
    hold = ?26, depends = ?27, waits = ?28, waited_ms = ?29, early = ?30, progress = ?31,
    behind = NULL, outcome = ?21, ended_at = ?22, value = ?23, live_key = NULL, next_key = NULL
WHERE id = ?1 AND rev = ?2
    AND (live_key IS NULL OR NOT EXISTS (SELECT 1 FROM jobs AS successor WHERE successor.next_key = jobs.live_key))
