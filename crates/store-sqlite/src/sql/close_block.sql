-- Closes an id block whose jobs are all completed.
DELETE FROM blocks WHERE first = ?1
