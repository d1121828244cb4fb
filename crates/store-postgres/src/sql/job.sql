-- Whole jobs.
-- `select_job` and `spec_columns` precede this.
FROM jobhall.jobs JOIN jobhall.specs ON specs.id = jobs.id
WHERE jobs.id = ANY($1::bigint[])
