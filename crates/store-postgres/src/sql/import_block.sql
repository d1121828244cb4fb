-- An id block with the ids that may be open.
INSERT INTO jobhall.blocks (first, last, live) VALUES ($1, $2, $3)
