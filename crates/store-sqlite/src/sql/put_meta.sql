-- Sets a counter that outlives the rows it was derived from.
UPDATE meta SET value = ?2 WHERE name = ?1
