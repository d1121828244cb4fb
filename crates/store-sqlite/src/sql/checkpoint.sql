-- PASSIVE: waits for no reader.
PRAGMA wal_checkpoint(PASSIVE)
