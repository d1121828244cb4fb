-- A counter that outlives the rows it was derived from.
SELECT value FROM jobhall.meta WHERE name = $1
