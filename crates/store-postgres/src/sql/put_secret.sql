-- Stores the secret that nodes authenticate each other with, if there is none yet.
INSERT INTO jobhall.hall (one, secret) VALUES (true, $1) ON CONFLICT DO NOTHING
