-- Stores an attempt that ended while its job continues.
INSERT INTO attempts (
    job, claim, lease, worker, assigned_at, accepted_at, started_at, ended_at, outcome, error, progress
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
