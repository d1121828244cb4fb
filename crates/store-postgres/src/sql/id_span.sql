-- The lowest and the highest id there is; NULL where there is no job.
SELECT (SELECT min(id) FROM jobhall.jobs), (SELECT max(id) FROM jobhall.jobs)
