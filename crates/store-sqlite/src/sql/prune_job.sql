-- A completed job; an open one is left alone.
DELETE FROM jobs WHERE id = ?1 AND state >= 8
