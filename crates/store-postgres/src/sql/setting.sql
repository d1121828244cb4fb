-- Settings by kind and name.
SELECT settings.kind, settings.name, settings.rev, settings.value
FROM unnest($1::text[], $2::text[]) AS wanted (kind, name)
JOIN jobhall.settings ON settings.kind = wanted.kind AND settings.name = wanted.name
