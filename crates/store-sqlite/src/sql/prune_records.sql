-- Deletes records of a kind that were written before this time.
DELETE FROM records WHERE kind = ?1 AND at < ?2
