-- A node that stops.
DELETE FROM jobhall.nodes WHERE name = $1
