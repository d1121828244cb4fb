-- Closes id blocks whose jobs are all completed.
DELETE FROM jobhall.blocks WHERE first = ANY($1::bigint[])
