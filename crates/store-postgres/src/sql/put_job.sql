-- Writes jobs as decided units leave them, after the keys that move were released.
WITH changed AS (
    UPDATE jobhall.jobs AS job SET
        rev = new.rev, state = new.state, claim = new.claim, attempt = new.attempt, lost = new.lost,
        snoozed = new.snoozed, unaccepted = new.unaccepted, run_at = new.run_at, updated_at = new.updated_at,
        lease = new.lease, worker = new.worker, assigned_at = new.assigned_at, accepted_at = new.accepted_at,
        started_at = new.started_at, behind = new.behind, outcome = new.outcome, ended_at = new.ended_at,
        cancel = new.cancel, again = new.again, error = new.error, value = new.value, hold = new.hold,
        depends = new.depends, waits = new.waits, waited_ms = new.waited_ms, early = new.early, progress = new.progress,
        live_key = new.live_key, next_key = new.next_key
    FROM unnest(
        $1::bigint[], $2::integer[], $3::smallint[], $4::integer[], $5::integer[], $6::integer[], $7::integer[],
        $8::integer[], $9::bigint[], $10::bigint[], $11::bytea[], $12::text[], $13::bigint[], $14::bigint[],
        $15::bigint[], $16::bigint[], $17::smallint[], $18::bigint[], $19::text[], $20::text[], $21::text[],
        $22::text[], $23::boolean[], $24::boolean[], $25::text[], $26::bigint[], $27::text[], $28::text[],
        $29::text[], $30::text[]
    ) AS new (
        id, rev, state, claim, attempt, lost, snoozed, unaccepted, run_at, updated_at, lease, worker, assigned_at,
        accepted_at, started_at, behind, outcome, ended_at, cancel, again, error, value, hold, depends, waits,
        waited_ms, early, progress, live_key, next_key
    )
    WHERE job.id = new.id
    RETURNING 1
)
SELECT jobhall.expect((SELECT count(*) FROM changed), $31)
