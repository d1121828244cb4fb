-- For each (type, key, time, id), the newest success that ended at that time or later and has a higher id, with the
-- type and key. Scans the key's jobs from the newest id; retention bounds their number, and the first match ends the
-- scan.
SELECT success.id, wanted.type, wanted.key
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS wanted (type, key, since, above)
CROSS JOIN LATERAL (
    SELECT jobs.id
    FROM jobhall.specs JOIN jobhall.jobs ON jobs.id = specs.id
    WHERE specs.type = wanted.type AND specs.key = wanted.key AND specs.key IS NOT NULL
        AND specs.id > wanted.above AND jobs.state = 8 AND jobs.ended_at >= wanted.since
    ORDER BY specs.id DESC
    LIMIT 1
) AS success
