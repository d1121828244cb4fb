-- Deletes a group that has ended; an open group is kept.
DELETE FROM groups WHERE id = ?1 AND open IS NULL
