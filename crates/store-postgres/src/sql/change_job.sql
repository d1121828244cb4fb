-- The hot path: changes that are expected to match the rev they were decided on. A live job keeps its key, an ended
-- job releases it. A row does not match if its rev differs, if the job waits for its key and would have to move, or
-- if a successor waits for the key that the job releases. The row count then differs from the expected one, and the
-- units are decided again on the stored rows.
WITH changed AS (
    UPDATE jobhall.jobs AS job SET
        rev = new.rev, state = new.state, claim = new.claim, attempt = new.attempt, lost = new.lost,
        snoozed = new.snoozed, unaccepted = new.unaccepted, run_at = new.run_at, updated_at = new.updated_at,
        lease = new.lease, worker = new.worker, assigned_at = new.assigned_at, accepted_at = new.accepted_at,
        started_at = new.started_at, behind = new.behind, outcome = new.outcome, ended_at = new.ended_at,
        cancel = new.cancel, again = new.again, error = new.error, value = new.value, hold = new.hold,
        depends = new.depends, waits = new.waits, waited_ms = new.waited_ms, early = new.early, progress = new.progress,
        live_key = CASE WHEN new.free THEN NULL ELSE job.live_key END, next_key = NULL
    FROM unnest(
        $1::bigint[], $2::integer[], $3::smallint[], $4::integer[], $5::integer[], $6::integer[], $7::integer[],
        $8::integer[], $9::bigint[], $10::bigint[], $11::bytea[], $12::text[], $13::bigint[], $14::bigint[],
        $15::bigint[], $16::bigint[], $17::smallint[], $18::bigint[], $19::text[], $20::text[], $21::text[],
        $22::text[], $23::boolean[], $24::boolean[], $25::text[], $26::bigint[], $27::text[], $28::text[],
        $29::integer[], $30::boolean[]
    ) AS new (
        id, rev, state, claim, attempt, lost, snoozed, unaccepted, run_at, updated_at, lease, worker, assigned_at,
        accepted_at, started_at, behind, outcome, ended_at, cancel, again, error, value, hold, depends, waits,
        waited_ms, early, progress, expected, free
    )
    WHERE job.id = new.id AND job.rev = new.expected AND CASE
        WHEN NOT new.free THEN job.next_key IS NULL
        WHEN job.live_key IS NULL THEN true
        ELSE NOT EXISTS (SELECT FROM jobhall.jobs AS successor WHERE successor.next_key = job.live_key)
    END
    RETURNING 1
)
SELECT jobhall.expect((SELECT count(*) FROM changed), $31)
