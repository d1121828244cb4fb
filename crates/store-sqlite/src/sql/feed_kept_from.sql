-- The first feed row that is kept. Rows are deleted from the lowest number on while they are old enough, so that
-- the numbers have no gap.
SELECT n FROM feed WHERE at >= ?1 ORDER BY n LIMIT 1
