-- Precedes a unit that writes several rows and may still be refused.
SAVEPOINT unit
