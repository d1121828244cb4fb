-- The live job of a key. The comparison implies `IS NOT NULL`, so the partial index is used.
SELECT id FROM jobs WHERE live_key = ?1
