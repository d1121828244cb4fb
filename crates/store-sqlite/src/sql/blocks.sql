-- The id blocks that are not closed.
SELECT first, last, live FROM blocks ORDER BY first
