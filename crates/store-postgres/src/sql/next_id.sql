-- The lowest id of a job above $1; NULL if there is none.
SELECT min(id) FROM jobhall.jobs WHERE id > $1
