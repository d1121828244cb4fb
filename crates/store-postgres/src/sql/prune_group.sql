-- Groups that have ended; an open one is left alone.
DELETE FROM jobhall.groups WHERE id = ANY($1::bigint[]) AND open IS NULL
