-- Every job of these ranges is completed.
DELETE FROM jobhall.blocks WHERE first = ANY($1::bigint[])
