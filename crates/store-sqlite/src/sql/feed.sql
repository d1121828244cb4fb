-- A range of feed rows.
SELECT n, at, entries FROM feed WHERE n > ?1 ORDER BY n LIMIT ?2
