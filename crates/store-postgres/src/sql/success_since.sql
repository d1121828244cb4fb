-- For each (type, key, time), the newest success that ended at that time or later. Scans the key's jobs from the
-- newest id; retention bounds their number, and the first match ends the scan.
SELECT success.id
FROM unnest($1::text[], $2::text[], $3::bigint[]) AS wanted (type, key, since)
CROSS JOIN LATERAL (
    SELECT jobs.id
    FROM jobhall.specs JOIN jobhall.jobs ON jobs.id = specs.id
    WHERE specs.type = wanted.type AND specs.key = wanted.key AND specs.key IS NOT NULL
        AND jobs.state = 8 AND jobs.ended_at >= wanted.since
    ORDER BY specs.id DESC
    LIMIT 1
) AS success
