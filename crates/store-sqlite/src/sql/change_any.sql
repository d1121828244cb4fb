-- Any change, after its rev was compared: for jobs whose place on the key changes, and for units that are checked
-- in stages.
UPDATE jobs SET
    rev = ?3, state = ?4, claim = ?5, attempt = ?6, lost = ?7, snoozed = ?8, unaccepted = ?9,
    run_at = ?10, updated_at = ?11, lease = ?12, worker = ?13, assigned_at = ?14, accepted_at = ?15,
    started_at = ?16, cancel = ?17, again = ?18, error = ?19,
    hold = ?26, depends = ?27, waits = ?28, waited_ms = ?29, early = ?30, progress = ?31,
    behind = ?20, outcome = ?21, ended_at = ?22, value = ?23, live_key = ?24, next_key = ?25
WHERE id = ?1
