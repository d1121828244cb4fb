-- What nodes know each other by, made once.
INSERT INTO jobhall.hall (one, secret) VALUES (true, $1) ON CONFLICT DO NOTHING
