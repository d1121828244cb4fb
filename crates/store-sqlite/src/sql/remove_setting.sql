-- Deletes a setting, after its rev was compared.
DELETE FROM settings WHERE kind = ?1 AND name = ?2
