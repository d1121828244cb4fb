-- The live job of a key. `IS NOT NULL` is implied by the comparison, so the partial index serves.
SELECT id FROM jobs WHERE live_key = ?1
