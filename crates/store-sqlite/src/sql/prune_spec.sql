-- The immutable part of a removed job.
DELETE FROM specs WHERE id = ?1
