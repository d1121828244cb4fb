-- Takes the leadership, or returns which node has it.
SELECT mine, epoch, node, url, left_ms FROM jobhall.take_leadership($1, $2, $3, $4)
