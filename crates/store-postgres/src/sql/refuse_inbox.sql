-- Puts a request aside that cannot be a job.
SELECT jobhall.refuse($1, $2, $3)
