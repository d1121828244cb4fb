-- A counter that outlives the rows it was derived from.
SELECT value FROM meta WHERE name = ?1
