-- Deletes feed rows up to this number.
DELETE FROM feed WHERE n <= ?1
