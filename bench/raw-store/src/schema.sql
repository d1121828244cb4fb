-- The tables of the engine's store that a job's life touches, with the same columns and indexes. A test compares them
-- with the store's own migrations.
CREATE TABLE specs (
    id             INTEGER PRIMARY KEY,
    type           TEXT    NOT NULL,
    key            TEXT,
    queue          TEXT    NOT NULL,
    needs          TEXT    NOT NULL,
    priority       INTEGER NOT NULL,
    max_attempts   INTEGER NOT NULL,
    backoff        INTEGER NOT NULL,
    backoff_ms     INTEGER NOT NULL,
    backoff_cap_ms INTEGER,
    retry_on       INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    retry_of       INTEGER,
    params         TEXT    NOT NULL,
    uses           TEXT,
    avoid          INTEGER,
    windows        TEXT,
    throttle_factor INTEGER,
    total_ms       INTEGER,
    silence_ms     INTEGER,
    after          TEXT,
    after_any      INTEGER,
    parent         INTEGER,
    group_id       INTEGER,
    attached       INTEGER,
    copy_of        INTEGER,
    owner          TEXT,
    tags           TEXT,
    schedule       TEXT,
    at_most_once   INTEGER
) STRICT;
CREATE INDEX specs_key ON specs (type, key) WHERE key IS NOT NULL;
CREATE INDEX specs_group ON specs (group_id) WHERE group_id IS NOT NULL;

CREATE TABLE jobs (
    id          INTEGER PRIMARY KEY,
    rev         INTEGER NOT NULL,
    state       INTEGER NOT NULL,
    claim       INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    lost        INTEGER NOT NULL,
    snoozed     INTEGER NOT NULL,
    unaccepted  INTEGER NOT NULL,
    run_at      INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    lease       BLOB,
    worker      TEXT,
    assigned_at INTEGER,
    accepted_at INTEGER,
    started_at  INTEGER,
    behind      INTEGER,
    outcome     INTEGER,
    ended_at    INTEGER,
    cancel      TEXT,
    again       TEXT,
    error       TEXT,
    live_key    TEXT,
    next_key    TEXT,
    value       TEXT,
    hold        INTEGER,
    depends     INTEGER,
    waits       TEXT,
    waited_ms   INTEGER,
    early       TEXT,
    progress    TEXT
) STRICT;
CREATE UNIQUE INDEX jobs_live_key ON jobs (live_key) WHERE live_key IS NOT NULL;
CREATE UNIQUE INDEX jobs_next_key ON jobs (next_key) WHERE next_key IS NOT NULL;

CREATE TABLE blocks (
    first INTEGER PRIMARY KEY,
    last  INTEGER NOT NULL,
    live  TEXT
) STRICT;

CREATE TABLE feed (
    n       INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    entries BLOB    NOT NULL
) STRICT;

CREATE TABLE meta (
    name  TEXT    PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta (name, value) VALUES ('last_id', 0), ('feed_pruned_to', 0);
