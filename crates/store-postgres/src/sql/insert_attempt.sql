-- Stores attempts that ended while their jobs continue.
INSERT INTO jobhall.attempts (
    job, claim, lease, worker, assigned_at, accepted_at, started_at, ended_at, outcome, error, progress
)
SELECT * FROM unnest(
    $1::bigint[], $2::bigint[], $3::bytea[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
    $9::smallint[], $10::text[], $11::text[]
)
