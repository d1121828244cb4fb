-- The rev of a record.
SELECT rev FROM records WHERE kind = ?1 AND key = ?2
