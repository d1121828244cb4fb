-- A range of ids with those that may be open.
INSERT INTO jobhall.blocks (first, last, live) VALUES ($1, $2, $3)
