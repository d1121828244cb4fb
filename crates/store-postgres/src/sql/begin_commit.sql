-- Checks the fence and sets the number of the commit.
SELECT jobhall.begin_commit($1, $2)
