-- Records that only these jobs of the block are open.
UPDATE blocks SET live = ?2 WHERE first = ?1
