-- Documents of applications.

CREATE TABLE jobhall.records (
    kind     text    NOT NULL COLLATE "C", -- whose and what, such as 'q.pin'
    key      text    NOT NULL COLLATE "C", -- which one
    rev      integer NOT NULL,             -- rises at every write, from 1
    at       bigint  NOT NULL,             -- when it was written
    group_id bigint,                       -- the group that it belongs to
    bytes    integer NOT NULL,             -- the length of the value, so that a page can end before it is read
    value    text    NOT NULL,             -- the content, as JSON
    PRIMARY KEY (kind, key)
);

-- For pruning by age.
CREATE INDEX records_at ON jobhall.records (kind, at);
CREATE INDEX records_group ON jobhall.records (kind, group_id, key) WHERE group_id IS NOT NULL;
