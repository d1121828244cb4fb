-- Only these jobs of the range are open.
UPDATE blocks SET live = ?2 WHERE first = ?1
