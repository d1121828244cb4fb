-- The settings of one kind, or all: ranges of the primary key, so that other kinds are not read.
SELECT kind, name, rev, value FROM settings WHERE kind >= coalesce(?1, '') AND kind <= coalesce(?1, '~')
ORDER BY kind, name
