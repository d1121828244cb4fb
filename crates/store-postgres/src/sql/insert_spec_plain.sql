-- `insert_spec` for jobs whose rarely used columns are all NULL. Each row has the number, from 1, of the shape
-- whose values it shares with other rows.
INSERT INTO jobhall.specs (
    id, key, params, type, queue, needs, priority, max_attempts, backoff, backoff_ms, backoff_cap_ms, retry_on, created_at
)
SELECT
    new.id, new.key, new.params, ($5::text[])[new.shape], ($6::text[])[new.shape], ($7::text[])[new.shape],
    ($8::integer[])[new.shape], ($9::integer[])[new.shape], ($10::smallint[])[new.shape], ($11::bigint[])[new.shape],
    ($12::bigint[])[new.shape], ($13::smallint[])[new.shape], ($14::bigint[])[new.shape]
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::smallint[]) AS new (id, key, params, shape)
