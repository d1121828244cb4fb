-- `insert_job` for jobs with nothing particular about them: no key, queued or assigned.
WITH inserted AS (
    INSERT INTO jobhall.jobs (
        id, rev, state, claim, attempt, lost, snoozed, unaccepted, run_at, updated_at, lease, worker, assigned_at,
        accepted_at, started_at
    )
    SELECT * FROM unnest(
        $1::bigint[], $2::integer[], $3::smallint[], $4::integer[], $5::integer[], $6::integer[], $7::integer[],
        $8::integer[], $9::bigint[], $10::bigint[], $11::bytea[], $12::text[], $13::bigint[], $14::bigint[],
        $15::bigint[]
    )
    ON CONFLICT DO NOTHING
    RETURNING 1
)
SELECT jobhall.expect((SELECT count(*) FROM inserted), $16)
