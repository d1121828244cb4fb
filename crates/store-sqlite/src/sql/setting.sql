-- One setting.
SELECT rev, value FROM settings WHERE kind = ?1 AND name = ?2
