-- leads's row, so that no node begins or commits meanwhile; tells who leads, if anyone does.
SELECT node, url, until > clock_timestamp() FROM jobhall.leadership FOR UPDATE
