-- Releases keys before other jobs take them.
UPDATE jobhall.jobs SET live_key = NULL, next_key = NULL WHERE id = ANY($1::bigint[])
