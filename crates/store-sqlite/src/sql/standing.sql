-- What the stages of a unit need to know of a stored job.
SELECT jobs.rev, jobs.state, jobs.live_key, jobs.next_key, specs.type, specs.key, jobs.behind
FROM jobs JOIN specs ON specs.id = jobs.id
WHERE jobs.id = ?1
