-- The hottest one: `change_job` for jobs with nothing particular about them from now on.
WITH changed AS (
    UPDATE jobhall.jobs AS job SET
        rev = new.rev, state = new.state, claim = new.claim, attempt = new.attempt, lost = new.lost,
        snoozed = new.snoozed, unaccepted = new.unaccepted, run_at = new.run_at, updated_at = new.updated_at,
        lease = new.lease, worker = new.worker, assigned_at = new.assigned_at, accepted_at = new.accepted_at,
        started_at = new.started_at, outcome = new.outcome, ended_at = new.ended_at, value = new.value,
        behind = NULL, cancel = NULL, again = NULL, error = NULL, hold = NULL, depends = NULL, waits = NULL,
        waited_ms = NULL, early = NULL,
        live_key = CASE WHEN new.free THEN NULL ELSE job.live_key END, next_key = NULL
    FROM unnest(
        $1::bigint[], $2::integer[], $3::smallint[], $4::integer[], $5::integer[], $6::integer[], $7::integer[],
        $8::integer[], $9::bigint[], $10::bigint[], $11::bytea[], $12::text[], $13::bigint[], $14::bigint[],
        $15::bigint[], $16::smallint[], $17::bigint[], $18::text[], $19::integer[], $20::boolean[]
    ) AS new (
        id, rev, state, claim, attempt, lost, snoozed, unaccepted, run_at, updated_at, lease, worker, assigned_at,
        accepted_at, started_at, outcome, ended_at, value, expected, free
    )
    WHERE job.id = new.id AND job.rev = new.expected AND CASE
        WHEN NOT new.free THEN job.next_key IS NULL
        WHEN job.live_key IS NULL THEN true
        ELSE NOT EXISTS (SELECT FROM jobhall.jobs AS successor WHERE successor.next_key = job.live_key)
    END
    RETURNING 1
)
SELECT jobhall.expect((SELECT count(*) FROM changed), $21)
