-- Which migrations have run: set by each in its own transaction.
CREATE TABLE IF NOT EXISTS jobhall.migrations (
    n        integer PRIMARY KEY, -- its position, from 1
    name     text    NOT NULL,    -- its name, for people
    checksum bigint  NOT NULL     -- FNV-1a of its text: an edited one is refused
)
