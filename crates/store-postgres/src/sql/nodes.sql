-- Who was seen within the last $1 milliseconds, and who of them holds the desk.
SELECT nodes.name, nodes.url, nodes.version,
    (extract(epoch FROM nodes.started) * 1000)::bigint, (extract(epoch FROM nodes.seen) * 1000)::bigint,
    desk.node = nodes.name AND desk.until > clock_timestamp()
FROM jobhall.nodes CROSS JOIN jobhall.desk
WHERE nodes.seen > clock_timestamp() - $1::bigint * interval '1 millisecond'
ORDER BY nodes.started, nodes.name
