-- Documents of applications.

CREATE TABLE records (
    kind     TEXT    NOT NULL, -- whose and what, such as 'q.pin'
    key      TEXT    NOT NULL, -- which one
    rev      INTEGER NOT NULL, -- rises at every write, from 1
    at       INTEGER NOT NULL, -- when it was written
    group_id INTEGER,          -- the group that it belongs to
    value    TEXT    NOT NULL, -- the content, as JSON
    PRIMARY KEY (kind, key)
) STRICT;

-- For pruning by age.
CREATE INDEX records_at ON records (kind, at);
CREATE INDEX records_group ON records (kind, group_id, key) WHERE group_id IS NOT NULL;
