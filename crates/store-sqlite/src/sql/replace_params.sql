-- Params that a retry verdict brought.
UPDATE specs SET params = ?2 WHERE id = ?1
