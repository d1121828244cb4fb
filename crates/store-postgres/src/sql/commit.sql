-- Commits. The transaction is durable when this returns; a failed transaction is rolled back.
COMMIT
