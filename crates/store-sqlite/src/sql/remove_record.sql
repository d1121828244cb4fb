-- Deletes a record, after its rev was compared.
DELETE FROM records WHERE kind = ?1 AND key = ?2
