-- Links by parent and call.
SELECT stored.parent, stored.call, stored.job
FROM unnest($1::bigint[], $2::text[]) AS wanted (parent, call)
JOIN jobhall.links AS stored ON stored.parent = wanted.parent AND stored.call = wanted.call
