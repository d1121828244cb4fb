-- Records an applied migration.
INSERT INTO migrations (n, name, checksum) VALUES (?1, ?2, ?3)
