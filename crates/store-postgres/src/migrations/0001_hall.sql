-- The first schema: the tables of the embedded store, in the same words. Times of jobs are milliseconds since 1970, by
-- the clock of the node that holds the desk. State, outcome and disposition codes are positions in the lists
-- StateName::ALL, Outcome::ALL and Disposition::ALL of core; numbers of 32 bits are stored as the signed number with
-- the same bits. A column that says nothing of a job is NULL.
--
-- Index rule: an index covers only immutable columns, or columns that stay NULL in the common life of a job, so that
-- a claim and an end stay heap-only updates.

-- What was asked for. Set by the insert. A table of its own, so that the two or three later writes of a job rewrite
-- its narrow row in `jobs` and not its params.
CREATE TABLE jobhall.specs (
    id              bigint   PRIMARY KEY, -- the job; set by the insert
    created_at      bigint   NOT NULL,    -- when it was submitted; set by the insert
    backoff_ms      bigint   NOT NULL,    -- the first pause; set by the insert
    backoff_cap_ms  bigint,               -- the longest pause; set by the insert; NULL: a constant backoff has none
    retry_of        bigint,               -- the completed job it repeats; set by the insert; NULL: no manual retry
    priority        integer  NOT NULL,    -- lower goes first; set by the insert
    max_attempts    integer  NOT NULL,    -- attempts that may count; set by the insert
    backoff         smallint NOT NULL,    -- 0 constant, 1 linear, 2 exponential; set by the insert
    retry_on        smallint NOT NULL,    -- bit n: outcome code n is tried again; set by the insert
    type            text     NOT NULL COLLATE "C", -- what kind of work; set by the insert
    key             text     COLLATE "C", -- names the work within its type; set by the insert; NULL: never a duplicate
    queue           text     NOT NULL,    -- the queue it stands in; set by the insert
    needs           text     NOT NULL,    -- canonical selector over abilities; set by the insert; '': any worker
    params          text     NOT NULL,    -- JSON for the worker; set by the insert, replaced by a retry verdict with params
    uses            text,                 -- canonical amounts that it takes of its worker's numbers; set by the insert or an edit
    avoid           boolean,              -- true: another worker is preferred to those that had it; set by the insert
    windows         text,                 -- canonical times of day at which it may start; set by the insert or an edit
    throttle_factor integer,              -- what it weighs against limits; set by the insert; NULL: 1
    total_ms        bigint,               -- how long an attempt may take; set by the insert or an edit; NULL: as its type says
    silence_ms      bigint,               -- how long an attempt may say nothing; the same
    after           text,                 -- JSON [id, …], ascending: the jobs that must end before it; set by the insert
    after_any       boolean,              -- true: any end of those will do; set by the insert
    parent          bigint,               -- the job whose attempt asked for it; set by the insert
    group_id        bigint,               -- the group it belongs to; set by the insert
    attached        boolean,              -- true: it serves its group without being a member; set by the insert
    copy_of         bigint,               -- the job that it is a speculative copy of; set by the insert
    owner           text,                 -- whose it is; set by the insert
    tags            text,                 -- JSON ["…", …], ascending: what it is found by; set by the insert or an edit
    schedule        text                  -- the schedule that made it; set by the insert
);

-- Finds the successes of a (type, key) for reuse, newest id first. Immutable.
CREATE INDEX specs_key ON jobhall.specs (type, key, id) WHERE key IS NOT NULL;
-- Finds the jobs of a group. Immutable, and only jobs of groups pay for it.
CREATE INDEX specs_group ON jobhall.specs (group_id, id) WHERE group_id IS NOT NULL;

-- How far a job has come. Written by the insert and by every transition. More than half of each page stays free, so that
-- the later versions of a row find room beside it and no index is touched (heap-only updates).
CREATE TABLE jobhall.jobs (
    id          bigint   PRIMARY KEY, -- the job; set by the insert
    run_at      bigint   NOT NULL,    -- not before; set by the insert, by a retry and by a lost lease
    updated_at  bigint   NOT NULL,    -- the last transition; set by every one
    rev         integer  NOT NULL,    -- rises at every transition; guards every write
    claim       integer  NOT NULL,    -- the fence; raised by a claim
    attempt     integer  NOT NULL,    -- accepted claims; raised by an accept, progress or report
    lost        integer  NOT NULL,    -- attempts whose worker was not heard of; raised by the lease's end
    snoozed     integer  NOT NULL,    -- attempts that do not count; raised by a snooze verdict
    unaccepted  integer  NOT NULL,    -- claims in a row that nobody accepted; raised by a take-back, 0 by an accept
    state       smallint NOT NULL,    -- state code; 8 and above are completed
    outcome     smallint,             -- outcome code of the last attempt; set by the end; NULL: not completed
    assigned_at bigint,               -- when it was assigned; NULL with lease
    accepted_at bigint,               -- when the worker took it; NULL: it has not, or that was never seen
    started_at  bigint,               -- when the first progress came; NULL: none came
    ended_at    bigint,               -- when it ended; set by the end; NULL: not completed
    behind      bigint,               -- the job whose key it waits for; set by an insert behind it; NULL: it is not blocked by one
    waited_ms   bigint,               -- how long the attempt has waited for others; NULL: not at all
    hold        boolean,              -- true: kept from being claimed; set and cleared by people
    depends     boolean,              -- true: jobs of its `after` have yet to end; set by the insert, cleared by their end
    lease       bytea,                -- 16 bytes, big endian; set by a claim, kept by an end; NULL: nobody holds it, or (completed) nobody did
    worker      text,                 -- who holds or held it; NULL with lease
    cancel      text,                 -- JSON {at, failure}; set when a stop is asked of a held job; NULL: none on its way
    again       text,                 -- params of the follow-up that run_again asked for; cleared by the end; NULL: none
    error       text,                 -- JSON {reason, explanation, data}; queued: of the attempt before; held: the same until accepted; completed: why not a success; NULL: none
    waits       text,                 -- JSON {since, until}: a suspended attempt; until null: it waits for jobs, else for the outside
    early       text,                 -- JSON report: the outcome that came from outside before the worker was ready for it
    live_key    text COLLATE "C",     -- 'type/key' of a keyed job from insert or release to its end; NULL: no key, blocked or completed
    next_key    text COLLATE "C",     -- 'type/key' of a blocked job until its release or end; NULL: not blocked or no key
    value       text                  -- JSON result; set by the success; NULL: not a success, or the result is null
) WITH (fillfactor = 40);

-- At most one live job, and one that waits, per (type, key). Partial: a job without a key never touches them.
CREATE UNIQUE INDEX jobs_live_key ON jobhall.jobs (live_key) WHERE live_key IS NOT NULL;
CREATE UNIQUE INDEX jobs_next_key ON jobhall.jobs (next_key) WHERE next_key IS NOT NULL;

-- Attempts that ended while their job went on; a first-try success has no row here. Set once by the transition that
-- ends the attempt.
CREATE TABLE jobhall.attempts (
    job         bigint   NOT NULL, -- the job
    assigned_at bigint   NOT NULL, -- when it was assigned
    accepted_at bigint,            -- when the worker took it; NULL: that was never seen
    started_at  bigint,            -- when the first progress came; NULL: none came
    ended_at    bigint   NOT NULL, -- when it ended
    claim       bigint   NOT NULL, -- the claim it had
    outcome     smallint NOT NULL, -- outcome code
    lease       bytea    NOT NULL, -- the lease it had: a repeated report is recognised by it
    worker      text     NOT NULL, -- who had it
    error       text     NOT NULL, -- JSON {reason, explanation, data}
    PRIMARY KEY (job, claim)
);

-- Configuration. Set by whoever configures, guarded by rev.
CREATE TABLE jobhall.settings (
    kind  text    NOT NULL COLLATE "C", -- what it is about, such as 'type'
    name  text    NOT NULL COLLATE "C", -- which one
    rev   integer NOT NULL,             -- rises at every write, from 1
    value text    NOT NULL,             -- the content, as JSON
    PRIMARY KEY (kind, name)
);

-- Idempotency keys with the answer they got. Set by the submit; replaced only when the old one counts as forgotten.
CREATE TABLE jobhall.submit_keys (
    scope  text   NOT NULL COLLATE "C", -- whose key it is
    key    text   NOT NULL COLLATE "C", -- the key
    body   bytea  NOT NULL,             -- 16 bytes: a digest of the request, big endian
    answer text   NOT NULL,             -- JSON [[job, disposition code], …]
    at     bigint NOT NULL,             -- when it was stored
    PRIMARY KEY (scope, key)
);

-- Finds the forgotten ones. Only submits with a key pay for it.
CREATE INDEX submit_keys_at ON jobhall.submit_keys (at);

-- Ranges of ids lent to the desk. Set by the lending; gone when every job of the range is completed.
CREATE TABLE jobhall.blocks (
    first bigint PRIMARY KEY, -- the first id
    last  bigint NOT NULL,    -- the last id
    live  bigint[]            -- all that may be open; set when they are few; NULL: any may be open
);

-- What every commit changed. Set by the commit, pruned by age.
CREATE TABLE jobhall.feed (
    n       bigint PRIMARY KEY, -- dense, from 1: the one writer numbers its rows itself
    at      bigint NOT NULL,    -- the latest moment among its changes
    entries bytea  NOT NULL     -- packed (id, rev, state), see jobhall_store::pack
);

-- Numbers that must outlive the rows they come from.
CREATE TABLE jobhall.meta (
    name  text   PRIMARY KEY, -- 'last_id': the highest id ever lent; 'feed_pruned_to': the highest feed number removed; 'last_act': the highest number of an act; 'commits' and 'voided': see begin_commit
    value bigint NOT NULL     -- set by take_block, prune and commit
);

INSERT INTO jobhall.meta (name, value) VALUES ('last_id', 0), ('feed_pruned_to', 0), ('last_act', 0), ('commits', 0), ('voided', 0);

-- Who did what. Set by the unit that does it, never changed, pruned by age.
CREATE TABLE jobhall.audit (
    n       bigint PRIMARY KEY, -- rises in the order of the commits; never given twice
    at      bigint NOT NULL,    -- when
    who     text   NOT NULL,    -- the name of a token, or an address
    act     text   NOT NULL,    -- what was done, such as 'token_created'
    subject text   NOT NULL,    -- to what
    detail  text   NOT NULL     -- more about it, for people; '': nothing
);

-- Finds the old ones. People and administrators act rarely, so the index costs nothing that is felt.
CREATE INDEX audit_at ON jobhall.audit (at);

-- Sets of jobs with one verdict; the members are the jobs that name them. Guarded by rev.
CREATE TABLE jobhall.groups (
    id         bigint  PRIMARY KEY, -- numbered together with jobs; set by the insert
    rev        integer NOT NULL,    -- rises at every write, from 1
    name       text,                -- what people call it; set by the insert
    owner      text,                -- whose it is; set by the insert
    tags       text    NOT NULL,    -- JSON ["…", …]; set by the insert
    retry_of   bigint,              -- the group whose failed members it tries again; set by the insert
    created_at bigint  NOT NULL,    -- when it was made; set by the insert
    open       boolean,             -- true: it has not ended; NULL: it has
    closed     boolean NOT NULL,    -- true: it takes no more members
    cancel     text,                -- JSON failure: why it is being stopped; NULL: nobody asked for that
    ended_at   bigint,              -- when it ended; NULL with verdict and counts: it has not
    verdict    smallint,            -- position in GroupVerdict::ALL
    counts     text                 -- JSON [pending, active, succeeded, failed, crashed, cancelled] at its end
);

-- Finds the groups that have not ended; a group leaves it once.
CREATE INDEX groups_open ON jobhall.groups (id) WHERE open;

-- Sub-jobs by the names that their parents gave them. Set by the parent's request, gone when the parent has ended.
CREATE TABLE jobhall.links (
    parent bigint NOT NULL,             -- the job whose attempt asked
    call   text   NOT NULL COLLATE "C", -- what it calls the answer
    job    bigint NOT NULL,             -- the job that answers
    PRIMARY KEY (parent, call)
);
