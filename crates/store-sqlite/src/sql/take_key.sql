-- Gives a job its new place on the key, after all keys of the unit were released.
UPDATE jobs SET live_key = ?2, next_key = ?3 WHERE id = ?1
