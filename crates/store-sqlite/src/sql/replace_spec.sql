-- Replaces the mutable part of a spec: params from a retry verdict, or an edit. Type, key, queue, parent, group and
-- creation time never change.
UPDATE specs SET
    needs = ?5, priority = ?6, max_attempts = ?7, backoff = ?8, backoff_ms = ?9, backoff_cap_ms = ?10, retry_on = ?11,
    params = ?14, uses = ?15, avoid = ?16, windows = ?17, throttle_factor = ?18, total_ms = ?19, silence_ms = ?20,
    owner = ?27, tags = ?28, schedule = ?29, at_most_once = ?30
WHERE id = ?1 AND type = ?2
