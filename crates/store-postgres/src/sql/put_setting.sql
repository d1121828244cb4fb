-- Writes settings, after their revs were compared.
INSERT INTO jobhall.settings (kind, name, rev, value)
SELECT * FROM unnest($1::text[], $2::text[], $3::integer[], $4::text[])
ON CONFLICT (kind, name) DO UPDATE SET rev = excluded.rev, value = excluded.value
