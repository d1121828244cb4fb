-- The fence, and the number of the commit.
SELECT jobhall.begin_commit($1, $2)
