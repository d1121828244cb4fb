-- `insert_job` for jobs whose rarely used columns are all NULL: no key, queued or assigned. Each row has the
-- number, from 1, of the shape whose values it shares with other rows.
INSERT INTO jobhall.jobs (
    id, lease, rev, state, claim, attempt, lost, snoozed, unaccepted, run_at, updated_at, worker, assigned_at, accepted_at,
    started_at
)
SELECT
    new.id, new.lease, ($4::integer[])[new.shape], ($5::smallint[])[new.shape], ($6::integer[])[new.shape],
    ($7::integer[])[new.shape], ($8::integer[])[new.shape], ($9::integer[])[new.shape], ($10::integer[])[new.shape],
    ($11::bigint[])[new.shape], ($12::bigint[])[new.shape], ($13::text[])[new.shape], ($14::bigint[])[new.shape],
    ($15::bigint[])[new.shape], ($16::bigint[])[new.shape]
FROM unnest($1::bigint[], $2::bytea[], $3::smallint[]) AS new (id, lease, shape)
