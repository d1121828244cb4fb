-- The columns of a stored job that the stages of a unit check.
SELECT jobs.rev, jobs.state, jobs.live_key, jobs.next_key, specs.type, specs.key, jobs.behind
FROM jobs JOIN specs ON specs.id = jobs.id
WHERE jobs.id = ?1
