-- The applied migrations.
SELECT n, name, checksum FROM jobhall.migrations ORDER BY n
