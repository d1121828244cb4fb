-- Which migrations have run: set by each in its own transaction. The file's user_version is the highest n.
CREATE TABLE IF NOT EXISTS migrations (
    n        INTEGER PRIMARY KEY, -- its position, from 1
    name     TEXT    NOT NULL,    -- its name, for people
    checksum INTEGER NOT NULL     -- FNV-1a of its text: an edited one is refused
) STRICT
