-- Deletes a completed job; an open job is kept.
DELETE FROM jobs WHERE id = ?1 AND state >= 8
