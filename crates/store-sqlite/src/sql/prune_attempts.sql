-- Deletes the attempts of a removed job.
DELETE FROM attempts WHERE job = ?1
