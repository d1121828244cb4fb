-- Deletes settings, after their revs were compared.
DELETE FROM jobhall.settings USING unnest($1::text[], $2::text[]) AS gone (kind, name)
WHERE settings.kind = gone.kind AND settings.name = gone.name
