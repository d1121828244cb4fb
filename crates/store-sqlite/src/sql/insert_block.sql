-- Allocates a block of ids.
INSERT INTO blocks (first, last, live) VALUES (?1, ?2, NULL)
