-- Rolls the unit back.
ROLLBACK TO unit
