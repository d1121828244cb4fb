-- Writes a group, after its rev was compared.
INSERT INTO groups (id, rev, name, owner, tags, retry_of, created_at, closed, cancel, ended_at, verdict, counts, open, fails)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
ON CONFLICT (id) DO UPDATE SET
    rev = excluded.rev, closed = excluded.closed, cancel = excluded.cancel, ended_at = excluded.ended_at,
    verdict = excluded.verdict, counts = excluded.counts, open = excluded.open, fails = excluded.fails
