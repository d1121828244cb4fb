-- Keys that nobody may have a place on. Two index scans; `IS NOT NULL` is what the partial indexes are made for.
SELECT jobhall.expect(
    (SELECT count(*) FROM jobhall.jobs WHERE live_key = ANY($1::text[]) AND live_key IS NOT NULL)
    + (SELECT count(*) FROM jobhall.jobs WHERE next_key = ANY($1::text[]) AND next_key IS NOT NULL),
    0
)
