-- Writes a setting, after its rev was compared.
INSERT INTO settings (kind, name, rev, value) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (kind, name) DO UPDATE SET rev = excluded.rev, value = excluded.value
