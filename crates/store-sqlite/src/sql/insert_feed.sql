-- What one commit changed.
INSERT INTO feed (n, at, entries) VALUES (?1, ?2, ?3)
