-- The hottest path: `change_job` for jobs whose rarely used columns are all NULL. Each row has the number, from 1,
-- of the shape whose values it shares with other rows.
WITH changed AS (
    UPDATE jobhall.jobs AS job SET
        lease = new.lease, rev = ($4::integer[])[new.shape], state = ($5::smallint[])[new.shape],
        claim = ($6::integer[])[new.shape], attempt = ($7::integer[])[new.shape], lost = ($8::integer[])[new.shape],
        snoozed = ($9::integer[])[new.shape], unaccepted = ($10::integer[])[new.shape],
        run_at = ($11::bigint[])[new.shape], updated_at = ($12::bigint[])[new.shape], worker = ($13::text[])[new.shape],
        assigned_at = ($14::bigint[])[new.shape], accepted_at = ($15::bigint[])[new.shape],
        started_at = ($16::bigint[])[new.shape], outcome = ($17::smallint[])[new.shape],
        ended_at = ($18::bigint[])[new.shape], value = ($19::text[])[new.shape],
        behind = NULL, cancel = NULL, again = NULL, error = NULL, hold = NULL, depends = NULL, waits = NULL,
        waited_ms = NULL, early = NULL, progress = NULL,
        live_key = CASE WHEN ($21::boolean[])[new.shape] THEN NULL ELSE job.live_key END, next_key = NULL
    FROM unnest($1::bigint[], $2::bytea[], $3::smallint[]) AS new (id, lease, shape)
    WHERE job.id = new.id AND job.rev = ($20::integer[])[new.shape] AND CASE
        WHEN NOT ($21::boolean[])[new.shape] THEN job.next_key IS NULL
        WHEN job.live_key IS NULL THEN true
        ELSE NOT EXISTS (SELECT FROM jobhall.jobs AS successor WHERE successor.next_key = job.live_key)
    END
    RETURNING 1
)
SELECT jobhall.expect((SELECT count(*) FROM changed), $22)
