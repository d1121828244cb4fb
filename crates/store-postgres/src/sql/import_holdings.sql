-- The number of rows of each kind, and the highest id ever allocated.
SELECT
    greatest((SELECT count(*) FROM jobhall.jobs), (SELECT count(*) FROM jobhall.specs)),
    (SELECT count(*) FROM jobhall.attempts), (SELECT count(*) FROM jobhall.groups),
    (SELECT count(*) FROM jobhall.links), (SELECT count(*) FROM jobhall.settings),
    (SELECT count(*) FROM jobhall.idempotency_keys), (SELECT count(*) FROM jobhall.audit),
    (SELECT count(*) FROM jobhall.blocks), (SELECT count(*) FROM jobhall.records),
    (SELECT value FROM jobhall.meta WHERE name = 'last_id')
