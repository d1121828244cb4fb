-- How many rows there are of each kind. A job without both its rows is counted, so that it is missed later.
SELECT
    max((SELECT count(*) FROM jobs), (SELECT count(*) FROM specs)), (SELECT count(*) FROM attempts),
    (SELECT count(*) FROM groups), (SELECT count(*) FROM links), (SELECT count(*) FROM settings),
    (SELECT count(*) FROM idempotency_keys), (SELECT count(*) FROM audit), (SELECT count(*) FROM blocks)
