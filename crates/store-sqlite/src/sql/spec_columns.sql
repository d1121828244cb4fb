    -- spec::spec reads the columns in this order.
    specs.type, specs.key, specs.queue, specs.needs, specs.priority, specs.max_attempts, specs.backoff,
    specs.backoff_ms, specs.backoff_cap_ms, specs.retry_on, specs.created_at, specs.retry_of, specs.params,
    specs.uses, specs.avoid, specs.windows, specs.throttle_factor, specs.total_ms, specs.silence_ms, specs.after,
    specs.after_any, specs.parent, specs.group_id, specs.attached, specs.copy_of, specs.owner, specs.tags,
    specs.schedule, specs.at_most_once
