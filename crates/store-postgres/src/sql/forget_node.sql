-- Deletes a node that is stopping.
DELETE FROM jobhall.nodes WHERE name = $1
