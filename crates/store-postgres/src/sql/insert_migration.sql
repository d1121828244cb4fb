-- Records an applied migration.
INSERT INTO jobhall.migrations (n, name, checksum) VALUES ($1, $2, $3)
