-- The migrations that ran.
SELECT n, name, checksum FROM jobhall.migrations ORDER BY n
