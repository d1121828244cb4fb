-- Whether a job exists, and its state.
SELECT state FROM jobs WHERE id = ?1
