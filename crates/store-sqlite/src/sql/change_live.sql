-- A claim, accept, start or retry of a job that keeps its key. Writes no key column, so it updates no index.
-- Matches no row if the rev differs, or if the job waits for its key and would have to move.
UPDATE jobs SET
    rev = ?3, state = ?4, claim = ?5, attempt = ?6, lost = ?7, snoozed = ?8, unaccepted = ?9,
    run_at = ?10, updated_at = ?11, lease = ?12, worker = ?13, assigned_at = ?14, accepted_at = ?15,
    started_at = ?16, cancel = ?17, again = ?18, error = ?19,
    hold = ?26, depends = ?27, waits = ?28, waited_ms = ?29, early = ?30, progress = ?31, behind = NULL
WHERE id = ?1 AND rev = ?2 AND next_key IS NULL
