-- The nodes seen within the last $1 milliseconds, with whether each leads and whether it was last seen more than
-- ten seconds ago.
SELECT nodes.name, nodes.url, nodes.version,
    (extract(epoch FROM nodes.started) * 1000)::bigint, (extract(epoch FROM nodes.seen) * 1000)::bigint,
    leadership.node = nodes.name AND leadership.until > clock_timestamp(),
    nodes.seen < clock_timestamp() - interval '10 seconds'
FROM jobhall.nodes CROSS JOIN jobhall.leadership
WHERE nodes.seen > clock_timestamp() - $1::bigint * interval '1 millisecond'
ORDER BY nodes.started, nodes.name
