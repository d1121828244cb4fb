-- Allocates the next $1 ids, if that many are left below $2; otherwise returns no row.
WITH lent AS (
    UPDATE jobhall.meta SET value = value + $1 WHERE name = 'last_id' AND value <= $2 - $1
    RETURNING value - $1 + 1 AS first, value AS last
)
INSERT INTO jobhall.blocks (first, last) SELECT first, last FROM lent RETURNING first, last
