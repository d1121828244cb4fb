-- A number that outlives the rows it comes from.
SELECT value FROM meta WHERE name = ?1
