-- Inserts audit entries.
INSERT INTO jobhall.audit (n, at, who, act, subject, detail)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[])
