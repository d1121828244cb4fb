-- The jobs that hold or wait for these keys. Two index scans; `IS NOT NULL` is what the partial indexes are made for.
SELECT id FROM jobhall.jobs WHERE live_key = ANY($1::text[]) AND live_key IS NOT NULL
UNION ALL
SELECT id FROM jobhall.jobs WHERE next_key = ANY($1::text[]) AND next_key IS NOT NULL
