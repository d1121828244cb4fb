-- Deletes audit entries older than this time.
DELETE FROM audit WHERE at < ?1
