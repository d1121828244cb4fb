-- Writes a sub-job under the name that its parent gave it.
INSERT INTO links (parent, call, job) VALUES (?1, ?2, ?3)
ON CONFLICT (parent, call) DO UPDATE SET job = excluded.job
