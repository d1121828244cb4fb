-- Deletes the links of parents that have ended.
DELETE FROM jobhall.links WHERE parent = ANY($1::bigint[])
