-- The jobs that hold or wait for these keys. Two index scans; `IS NOT NULL` selects the partial indexes.
SELECT id FROM jobhall.jobs WHERE live_key = ANY($1::text[]) AND live_key IS NOT NULL
UNION ALL
SELECT id FROM jobhall.jobs WHERE next_key = ANY($1::text[]) AND next_key IS NOT NULL
