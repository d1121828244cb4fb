-- The number of rows of each kind. A job that lacks one of its two rows is counted, so that the export notices it.
SELECT
    max((SELECT count(*) FROM jobs), (SELECT count(*) FROM specs)), (SELECT count(*) FROM attempts),
    (SELECT count(*) FROM groups), (SELECT count(*) FROM links), (SELECT count(*) FROM settings),
    (SELECT count(*) FROM idempotency_keys), (SELECT count(*) FROM audit), (SELECT count(*) FROM blocks),
    (SELECT count(*) FROM records)
