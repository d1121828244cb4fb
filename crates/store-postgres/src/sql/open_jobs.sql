-- Open jobs of one block, in id order. Scanning a range of the primary key avoids an index on state, which every
-- claim and every end would have to update.
-- `select_job` and `spec_columns` precede this.
FROM jobhall.jobs JOIN jobhall.specs ON specs.id = jobs.id
WHERE jobs.id BETWEEN $1 AND $2 AND jobs.state < 8
ORDER BY jobs.id
LIMIT $3
