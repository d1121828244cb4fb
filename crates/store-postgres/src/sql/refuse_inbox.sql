-- Marks an inbox row that cannot become a job.
SELECT jobhall.refuse($1, $2, $3)
