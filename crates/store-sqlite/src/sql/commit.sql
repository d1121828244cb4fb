-- Durable when it returns (synchronous = FULL).
COMMIT
