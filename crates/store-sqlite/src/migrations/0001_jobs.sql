-- The first schema. Times are milliseconds since 1970. State, outcome and disposition codes are positions in the
-- lists StateName::ALL, Outcome::ALL and Disposition::ALL of core.
--
-- Index rule: an index covers only immutable columns, or columns that stay NULL in the common life of a job, so that
-- a claim and an end rewrite one small row and touch no index.

-- What was asked for. Set by the insert. A table of its own, so that the two or three later writes of a job rewrite
-- its narrow row in `jobs` and not its params (halves the bytes written; measured).
CREATE TABLE specs (
    id             INTEGER PRIMARY KEY, -- the job; set by the insert
    type           TEXT    NOT NULL,    -- what kind of work; set by the insert
    key            TEXT,                -- names the work within its type; set by the insert; NULL: never a duplicate
    queue          TEXT    NOT NULL,    -- the queue it stands in; set by the insert
    needs          TEXT    NOT NULL,    -- canonical selector over abilities; set by the insert; '': any worker
    priority       INTEGER NOT NULL,    -- lower goes first; set by the insert
    max_attempts   INTEGER NOT NULL,    -- attempts that may count; set by the insert
    backoff        INTEGER NOT NULL,    -- 0 constant, 1 linear, 2 exponential; set by the insert
    backoff_ms     INTEGER NOT NULL,    -- the first pause; set by the insert
    backoff_cap_ms INTEGER,             -- the longest pause; set by the insert; NULL: a constant backoff has none
    retry_on       INTEGER NOT NULL,    -- bit n: outcome code n is tried again; set by the insert
    created_at     INTEGER NOT NULL,    -- when it was submitted; set by the insert
    retry_of       INTEGER,             -- the completed job it repeats; set by the insert; NULL: no manual retry
    params         TEXT    NOT NULL     -- JSON for the worker; set by the insert, replaced by a retry verdict with params
) STRICT;

-- Finds the successes of a (type, key) for reuse, newest id first (the rowid is the index's last column). Immutable.
CREATE INDEX specs_key ON specs (type, key) WHERE key IS NOT NULL;

-- How far a job has come. Written by the insert and by every transition.
CREATE TABLE jobs (
    id          INTEGER PRIMARY KEY, -- the job; set by the insert
    rev         INTEGER NOT NULL,    -- rises at every transition; guards every write
    state       INTEGER NOT NULL,    -- state code; 7 and above are completed
    claim       INTEGER NOT NULL,    -- the fence; raised by a claim
    attempt     INTEGER NOT NULL,    -- accepted claims; raised by an accept, progress or report
    lost        INTEGER NOT NULL,    -- attempts whose worker was not heard of; raised by the lease's end
    snoozed     INTEGER NOT NULL,    -- attempts that do not count; raised by a snooze verdict
    unaccepted  INTEGER NOT NULL,    -- claims in a row that nobody accepted; raised by a take-back, 0 by an accept
    run_at      INTEGER NOT NULL,    -- not before; set by the insert, by a retry and by a lost lease
    updated_at  INTEGER NOT NULL,    -- the last transition; set by every one
    lease       BLOB,                -- 16 bytes, big endian; set by a claim, kept by an end; NULL: nobody holds it, or (completed) nobody did
    worker      TEXT,                -- who holds or held it; NULL with lease
    assigned_at INTEGER,             -- when it was assigned; NULL with lease
    accepted_at INTEGER,             -- when the worker took it; NULL: it has not, or that was never seen
    started_at  INTEGER,             -- when the first progress came; NULL: none came
    behind      INTEGER,             -- the job whose key it waits for; set by an insert behind it; NULL: it is not blocked
    outcome     INTEGER,             -- outcome code of the last attempt; set by the end; NULL: not completed
    ended_at    INTEGER,             -- when it ended; set by the end; NULL: not completed
    cancel      TEXT,                -- JSON {at, failure}; set when a cancel is asked of a held job; NULL: none on its way
    again       TEXT,                -- params of the follow-up that run_again asked for; cleared by the end; NULL: none
    error       TEXT,                -- JSON {reason, explanation, data}; queued: of the attempt before; held: the same until accepted; completed: why not a success; NULL: none
    live_key    TEXT,                -- 'type/key' of a keyed job from insert or release to its end; NULL: no key, blocked or completed
    next_key    TEXT,                -- 'type/key' of a blocked job until its release or end; NULL: not blocked or no key
    value       TEXT                 -- JSON result; set by the success; NULL: not a success, or the result is null. Last, so that no other column is read behind a large one
) STRICT;

-- At most one live job, and one that waits, per (type, key). Partial: a job without a key never touches them.
CREATE UNIQUE INDEX jobs_live_key ON jobs (live_key) WHERE live_key IS NOT NULL;
CREATE UNIQUE INDEX jobs_next_key ON jobs (next_key) WHERE next_key IS NOT NULL;

-- Attempts that ended while their job went on; a first-try success has no row here. Set once by the transition that
-- ends the attempt.
CREATE TABLE attempts (
    job         INTEGER NOT NULL, -- the job
    claim       INTEGER NOT NULL, -- the claim it had
    lease       BLOB    NOT NULL, -- the lease it had: a repeated report is recognised by it
    worker      TEXT    NOT NULL, -- who had it
    assigned_at INTEGER NOT NULL, -- when it was assigned
    accepted_at INTEGER,          -- when the worker took it; NULL: that was never seen
    started_at  INTEGER,          -- when the first progress came; NULL: none came
    ended_at    INTEGER NOT NULL, -- when it ended
    outcome     INTEGER NOT NULL, -- outcome code
    error       TEXT    NOT NULL, -- JSON {reason, explanation, data}
    PRIMARY KEY (job, claim)
) STRICT, WITHOUT ROWID;

-- Configuration. Set by whoever configures, guarded by rev.
CREATE TABLE settings (
    kind  TEXT    NOT NULL, -- what it is about, such as 'type'
    name  TEXT    NOT NULL, -- which one
    rev   INTEGER NOT NULL, -- rises at every write, from 1
    value TEXT    NOT NULL, -- the content, as JSON
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- Idempotency keys with the answer they got. Set by the submit; replaced only when the old one counts as forgotten.
CREATE TABLE submit_keys (
    scope  TEXT    NOT NULL, -- whose key it is
    key    TEXT    NOT NULL, -- the key
    body   BLOB    NOT NULL, -- 16 bytes: a digest of the request, big endian
    answer TEXT    NOT NULL, -- JSON [[job, disposition code], …]
    at     INTEGER NOT NULL, -- when it was stored
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;

-- Finds the forgotten ones without a walk over a day's keys in the writer. Only submits with a key pay for it.
CREATE INDEX submit_keys_at ON submit_keys (at);

-- Ranges of ids lent to the node. Set by the lending; gone when every job of the range is completed.
CREATE TABLE blocks (
    first INTEGER PRIMARY KEY, -- the first id
    last  INTEGER NOT NULL,    -- the last id
    live  TEXT                 -- JSON [id, …]: all that may be open; set when they are few; NULL: any may be open
) STRICT;

-- What every commit changed. Set by the commit, pruned by age.
CREATE TABLE feed (
    n       INTEGER PRIMARY KEY, -- dense, from 1
    at      INTEGER NOT NULL,    -- the latest moment among its changes
    entries BLOB    NOT NULL     -- packed (id, rev, state), see jobhall_store::pack
) STRICT;

-- Numbers that must outlive the rows they come from.
CREATE TABLE meta (
    name  TEXT    PRIMARY KEY, -- 'last_id': the highest id ever lent; 'feed_pruned_to': the highest feed number removed
    value INTEGER NOT NULL     -- set by take_block and prune
) STRICT, WITHOUT ROWID;

INSERT INTO meta (name, value) VALUES ('last_id', 0), ('feed_pruned_to', 0);
