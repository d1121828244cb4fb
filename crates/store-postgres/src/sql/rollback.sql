-- As if the transaction had not been.
ROLLBACK
