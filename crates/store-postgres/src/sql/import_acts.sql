-- Audit entries by number.
SELECT n, at, who, act, subject, detail FROM jobhall.audit WHERE n = ANY($1::bigint[])
