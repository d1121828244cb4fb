-- Deletes records, after their revs were compared.
DELETE FROM jobhall.records USING unnest($1::text[], $2::text[]) AS gone (kind, key)
WHERE records.kind = gone.kind AND records.key = gone.key
