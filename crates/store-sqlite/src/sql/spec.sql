-- The spec of a job, for a caller that does not have it.
-- SELECT and `spec_columns` precede this.
FROM specs
WHERE id = ?1
