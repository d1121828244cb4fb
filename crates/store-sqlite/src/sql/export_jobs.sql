-- Whole jobs after ?1, in id order.
-- `select_job` and `spec_columns` precede this.
FROM jobs JOIN specs ON specs.id = jobs.id
WHERE jobs.id > ?1
ORDER BY jobs.id
