-- The id blocks that are not closed.
SELECT first, last, live FROM jobhall.blocks ORDER BY first
