-- Locks the leadership row, so that no node starts or commits meanwhile. Returns the current leader, if any.
SELECT node, url, until > clock_timestamp() FROM jobhall.leadership FOR UPDATE
