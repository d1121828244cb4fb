-- The lowest and the highest id there is; NULL where there is no job.
SELECT (SELECT min(id) FROM jobs), (SELECT max(id) FROM jobs)
