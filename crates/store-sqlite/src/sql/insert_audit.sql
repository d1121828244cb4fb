-- Inserts an audit entry.
INSERT INTO audit (at, who, act, subject, detail) VALUES (?1, ?2, ?3, ?4, ?5)
