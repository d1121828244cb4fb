-- All settings.
SELECT kind, name, rev, value FROM jobhall.settings ORDER BY kind, name
