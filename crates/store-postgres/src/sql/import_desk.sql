-- Holds the desk's row, so that no node begins or commits meanwhile; tells who has the desk, if anyone does.
SELECT node, url, until > clock_timestamp() FROM jobhall.desk FOR UPDATE
