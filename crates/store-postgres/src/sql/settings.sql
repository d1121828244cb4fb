-- The settings of kinds in this range of the primary key.
SELECT kind, name, rev, value FROM jobhall.settings WHERE kind >= $1 AND kind <= $2 ORDER BY kind, name
