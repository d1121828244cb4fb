-- A migration that ran.
INSERT INTO jobhall.migrations (n, name, checksum) VALUES ($1, $2, $3)
