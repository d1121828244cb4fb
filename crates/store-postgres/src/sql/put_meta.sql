-- A number that outlives the rows it comes from.
UPDATE jobhall.meta SET value = $2 WHERE name = $1
