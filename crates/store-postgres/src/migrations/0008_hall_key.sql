-- The nodes have their secret in a file, of which every node has a copy; the database has no secret. What it had until
-- now is removed and no longer good for anything.
DROP TABLE jobhall.hall;

-- Which key the nodes have. One row, written by the first node and by the first node with a newer key. A node that has
-- neither of these keys does not start.
CREATE TABLE jobhall.hall_key (
    one           boolean     PRIMARY KEY CHECK (one), -- there is one hall
    id            text        NOT NULL,                -- identifier of the current key: a hash that reveals nothing of it
    host          text        NOT NULL,                -- the machine of the node that wrote this row
    path          text        NOT NULL,                -- its key file
    written       timestamptz NOT NULL,                -- when it wrote this row
    earlier_id    text,                                -- identifier of the key before
    earlier_until timestamptz                          -- until when that one is valid
);
