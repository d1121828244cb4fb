-- The lowest and the highest job id; NULL if there are no jobs.
SELECT (SELECT min(id) FROM jobhall.jobs), (SELECT max(id) FROM jobhall.jobs)
