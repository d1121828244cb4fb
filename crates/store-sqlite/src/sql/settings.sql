-- All settings.
SELECT kind, name, rev, value FROM settings ORDER BY kind, name
