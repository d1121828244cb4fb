-- Durable when it returns; in a transaction that failed it rolls back.
COMMIT
