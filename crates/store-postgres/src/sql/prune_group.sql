-- Deletes groups that have ended; an open group is kept.
DELETE FROM jobhall.groups WHERE id = ANY($1::bigint[]) AND open IS NULL
