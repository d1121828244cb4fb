-- A stretch of the feed.
SELECT n, at, entries FROM feed WHERE n > ?1 ORDER BY n LIMIT ?2
