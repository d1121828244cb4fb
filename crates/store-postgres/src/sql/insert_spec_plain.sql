-- `insert_spec` for jobs that ask for nothing in particular.
INSERT INTO jobhall.specs (
    id, type, key, queue, needs, priority, max_attempts, backoff, backoff_ms, backoff_cap_ms, retry_on, created_at, params
)
SELECT * FROM unnest(
        $1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::integer[], $7::integer[], $8::smallint[],
        $9::bigint[], $10::bigint[], $11::smallint[], $12::bigint[], $13::text[]
)
