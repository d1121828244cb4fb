-- A group that has ended; an open one is left alone.
DELETE FROM groups WHERE id = ?1 AND open IS NULL
