-- One whole job.
-- `select_job` and `spec_columns` precede this.
FROM jobs JOIN specs ON specs.id = jobs.id
WHERE jobs.id = ?1
