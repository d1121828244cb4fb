-- As if the unit had not been.
ROLLBACK TO unit
