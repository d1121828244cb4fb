-- The job that waits for a key.
SELECT id FROM jobs WHERE next_key = ?1
