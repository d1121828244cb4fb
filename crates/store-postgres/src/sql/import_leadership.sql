-- Locks the row of the leadership, so that no node starts or commits meanwhile; returns who leads, if any node does.
SELECT node, url, until > clock_timestamp() FROM jobhall.leadership FOR UPDATE
