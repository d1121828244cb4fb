-- Deletes the spec of a removed job.
DELETE FROM specs WHERE id = ?1
