-- Checks that no job holds or waits for these keys. Two index scans; `IS NOT NULL` selects the partial indexes.
SELECT jobhall.expect(
    (SELECT count(*) FROM jobhall.jobs WHERE live_key = ANY($1::text[]) AND live_key IS NOT NULL)
    + (SELECT count(*) FROM jobhall.jobs WHERE next_key = ANY($1::text[]) AND next_key IS NOT NULL),
    0
)
