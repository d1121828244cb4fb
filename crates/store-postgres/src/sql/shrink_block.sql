-- Only these jobs of the range are open.
UPDATE jobhall.blocks SET live = $2 WHERE first = $1
