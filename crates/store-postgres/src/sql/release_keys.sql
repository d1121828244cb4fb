-- Releases places on keys before they are taken.
UPDATE jobhall.jobs SET live_key = NULL, next_key = NULL WHERE id = ANY($1::bigint[])
