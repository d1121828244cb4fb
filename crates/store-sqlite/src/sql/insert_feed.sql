-- Inserts the feed row of a commit.
INSERT INTO feed (n, at, entries) VALUES (?1, ?2, ?3)
