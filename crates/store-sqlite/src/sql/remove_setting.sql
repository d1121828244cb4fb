-- A setting that is no more, after its rev was compared.
DELETE FROM settings WHERE kind = ?1 AND name = ?2
