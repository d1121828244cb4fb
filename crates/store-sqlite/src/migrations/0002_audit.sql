-- Who did what. Set by the unit that does it, never changed, pruned by age. AUTOINCREMENT, so that a number is not
-- given again after the newest rows were removed.
CREATE TABLE audit (
    n       INTEGER PRIMARY KEY AUTOINCREMENT, -- rises in the order of the commits
    at      INTEGER NOT NULL,                  -- when, in milliseconds since 1970
    who     TEXT    NOT NULL,                  -- the name of a token, or an address
    act     TEXT    NOT NULL,                  -- what was done, such as 'token_created'
    subject TEXT    NOT NULL,                  -- to what
    detail  TEXT    NOT NULL                   -- more about it, for people; '': nothing
) STRICT;

-- Finds the old ones. People and administrators act rarely, so the index costs nothing that is felt.
CREATE INDEX audit_at ON audit (at);
