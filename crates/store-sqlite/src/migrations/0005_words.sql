-- Words that version 0.1.0 stored, in the words of today: the outcome passed is succeeded, the reasons poison and outrun
-- are too_many_lost_leases and copy_won. Only what the kernel wrote: a worker or a user may have given the same reasons,
-- and what they said stays. JSON is changed as text, so that the rest of it stays as it is byte by byte.

UPDATE jobs SET early = '{"succeeded"' || substr(early, 10) WHERE early LIKE '{"passed"%';
UPDATE jobs SET error = '{"reason":"too_many_lost_leases"' || substr(error, 19)
    WHERE error LIKE '{"reason":"poison","explanation":"3 workers were lost while they had this job%';
UPDATE jobs SET error = '{"reason":"copy_won"' || substr(error, 19)
    WHERE error LIKE '{"reason":"outrun","explanation":"job %, a copy of it, has succeeded"%';
UPDATE jobs SET cancel = replace(cancel, '{"reason":"outrun","explanation":"job ', '{"reason":"copy_won","explanation":"job ')
    WHERE cancel LIKE '%{"reason":"outrun","explanation":"job %, a copy of it, has succeeded"%';
UPDATE audit SET act = 'job_completed', detail = CASE detail WHEN 'passed' THEN 'succeeded' ELSE detail END
    WHERE act = 'job_finished';
