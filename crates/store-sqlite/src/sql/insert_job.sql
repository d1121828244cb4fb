-- Inserts the narrow row of a new job. If the id or the key is taken, no row is written and no error is raised; the
-- caller then finds out which of them it was.
INSERT INTO jobs (
    id, rev, state, claim, attempt, lost, snoozed, unaccepted, run_at, updated_at,
    lease, worker, assigned_at, accepted_at, started_at, cancel, again, error,
    behind, outcome, ended_at, value, live_key, next_key,
    hold, depends, waits, waited_ms, early, progress
) VALUES (
    ?1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
    ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
    ?20, ?21, ?22, ?23, ?24, ?25,
    ?26, ?27, ?28, ?29, ?30, ?31
) ON CONFLICT DO NOTHING
