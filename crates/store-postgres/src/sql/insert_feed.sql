-- Inserts feed rows, one per commit.
INSERT INTO jobhall.feed (n, at, entries) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[])
