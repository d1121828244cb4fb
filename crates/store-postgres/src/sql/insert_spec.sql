-- Inserts the specs of new jobs.
INSERT INTO jobhall.specs (
    id, type, key, queue, needs, priority, max_attempts, backoff, backoff_ms, backoff_cap_ms, retry_on, created_at,
    retry_of, params, uses, avoid, windows, throttle_factor, total_ms, silence_ms, after, after_any, parent,
    group_id, attached, copy_of, owner, tags, schedule, at_most_once
)
SELECT * FROM unnest(
        $1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::integer[], $7::integer[], $8::smallint[],
        $9::bigint[], $10::bigint[], $11::smallint[], $12::bigint[], $13::bigint[], $14::text[], $15::text[],
        $16::boolean[], $17::text[], $18::integer[], $19::bigint[], $20::bigint[], $21::text[], $22::boolean[],
        $23::bigint[], $24::bigint[], $25::boolean[], $26::bigint[], $27::text[], $28::text[], $29::text[],
        $30::boolean[]
)
