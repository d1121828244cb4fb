-- Writes a record, after its rev was compared. ?7 is 1 if it keeps its group.
INSERT INTO records (kind, key, rev, at, group_id, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (kind, key) DO UPDATE SET
    rev = excluded.rev, at = excluded.at, value = excluded.value, group_id = iif(?7, group_id, excluded.group_id)
