-- The first feed row that stays: rows go from the oldest number on while they are old enough, so that no hole opens.
SELECT n FROM feed WHERE at >= ?1 ORDER BY n LIMIT 1
