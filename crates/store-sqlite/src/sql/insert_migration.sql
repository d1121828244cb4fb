-- A migration that ran.
INSERT INTO migrations (n, name, checksum) VALUES (?1, ?2, ?3)
