-- The lowest and the highest job id; NULL if there are no jobs.
SELECT (SELECT min(id) FROM jobs), (SELECT max(id) FROM jobs)
