-- Takes the desk, or tells who has it.
SELECT mine, epoch, node, url, left_ms FROM jobhall.take_desk($1, $2, $3, $4)
