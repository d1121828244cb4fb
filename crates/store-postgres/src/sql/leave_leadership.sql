-- Releases the leadership, so that another node can take it immediately.
WITH gone AS (
    UPDATE jobhall.leadership SET until = clock_timestamp() WHERE epoch = $1 RETURNING node
), told AS (SELECT pg_notify('jobhall_leadership', 'free') FROM gone)
DELETE FROM jobhall.nodes USING gone WHERE name = gone.node AND EXISTS (SELECT FROM told)
