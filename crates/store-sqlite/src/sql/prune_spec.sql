-- Deletes the spec of a removed job. Returns its type and queue.
DELETE FROM specs WHERE id = ?1 RETURNING type, queue
