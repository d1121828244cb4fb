-- Begins the transaction of a commit.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE
