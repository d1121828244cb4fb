-- A number that outlives the rows it comes from.
SELECT value FROM jobhall.meta WHERE name = $1
