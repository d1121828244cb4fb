-- Inserts the narrow rows of new jobs. A row whose id or key is taken is skipped; the row count then differs from
-- the expected one.
WITH inserted AS (
    INSERT INTO jobhall.jobs (
        id, rev, state, claim, attempt, lost, snoozed, unaccepted, run_at, updated_at, lease, worker, assigned_at,
        accepted_at, started_at, behind, outcome, ended_at, cancel, again, error, value, hold, depends, waits,
        waited_ms, early, progress, live_key, next_key
    )
    SELECT * FROM unnest(
        $1::bigint[], $2::integer[], $3::smallint[], $4::integer[], $5::integer[], $6::integer[], $7::integer[],
        $8::integer[], $9::bigint[], $10::bigint[], $11::bytea[], $12::text[], $13::bigint[], $14::bigint[],
        $15::bigint[], $16::bigint[], $17::smallint[], $18::bigint[], $19::text[], $20::text[], $21::text[],
        $22::text[], $23::boolean[], $24::boolean[], $25::text[], $26::bigint[], $27::text[], $28::text[],
        $29::text[], $30::text[]
    )
    ON CONFLICT DO NOTHING
    RETURNING 1
)
SELECT jobhall.expect((SELECT count(*) FROM inserted), $31)
