-- Replaces the mutable part of specs: params from a retry verdict, or an edit. Type, key, queue, parent, group and
-- creation time never change.
UPDATE jobhall.specs AS spec SET
    needs = new.needs, priority = new.priority, max_attempts = new.max_attempts, backoff = new.backoff,
    backoff_ms = new.backoff_ms, backoff_cap_ms = new.backoff_cap_ms, retry_on = new.retry_on, params = new.params,
    uses = new.uses, avoid = new.avoid, windows = new.windows, throttle_factor = new.throttle_factor,
    total_ms = new.total_ms, silence_ms = new.silence_ms, owner = new.owner, tags = new.tags,
    schedule = new.schedule, at_most_once = new.at_most_once
FROM unnest(
        $1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::integer[], $7::integer[], $8::smallint[],
        $9::bigint[], $10::bigint[], $11::smallint[], $12::bigint[], $13::bigint[], $14::text[], $15::text[],
        $16::boolean[], $17::text[], $18::integer[], $19::bigint[], $20::bigint[], $21::text[], $22::boolean[],
        $23::bigint[], $24::bigint[], $25::boolean[], $26::bigint[], $27::text[], $28::text[], $29::text[],
        $30::boolean[]
) AS new (
    id, type, key, queue, needs, priority, max_attempts, backoff, backoff_ms, backoff_cap_ms, retry_on, created_at,
    retry_of, params, uses, avoid, windows, throttle_factor, total_ms, silence_ms, after, after_any, parent,
    group_id, attached, copy_of, owner, tags, schedule, at_most_once
)
WHERE spec.id = new.id
