-- Time, limits, dependencies, sub-jobs, groups and resources. A column that says nothing of a job is NULL.

-- The state `waiting` stands before `retrying`, so the codes of what is completed rise by one. Old feed rows carry old
-- codes: they go, and whoever follows is told to begin anew.
UPDATE jobs SET state = state + 1 WHERE state >= 6;
UPDATE meta SET value = (SELECT ifnull(max(n), 0) FROM feed)
WHERE name = 'feed_pruned_to' AND value < (SELECT ifnull(max(n), 0) FROM feed);
DELETE FROM feed;

ALTER TABLE jobs ADD COLUMN hold INTEGER;      -- 1: kept from being claimed; set and cleared by people
ALTER TABLE jobs ADD COLUMN depends INTEGER;   -- 1: jobs of its `after` have yet to end; set by the insert, cleared by their end
ALTER TABLE jobs ADD COLUMN waits TEXT;        -- JSON {since, until}: a suspended attempt; until NULL: it waits for jobs, else for the outside
ALTER TABLE jobs ADD COLUMN waited_ms INTEGER; -- how long the attempt has waited for others; NULL: not at all
ALTER TABLE jobs ADD COLUMN early TEXT;        -- JSON report: the outcome that came from outside before the worker was ready for it

ALTER TABLE specs ADD COLUMN uses TEXT;               -- canonical amounts that it takes of its worker's numbers; set by the insert or an edit
ALTER TABLE specs ADD COLUMN avoid INTEGER;           -- 1: another worker is preferred to those that had it; set by the insert
ALTER TABLE specs ADD COLUMN windows TEXT;            -- canonical times of day at which it may start; set by the insert or an edit
ALTER TABLE specs ADD COLUMN throttle_factor INTEGER; -- what it weighs against limits; set by the insert; NULL: 1
ALTER TABLE specs ADD COLUMN total_ms INTEGER;        -- how long an attempt may take; set by the insert or an edit; NULL: as its type says
ALTER TABLE specs ADD COLUMN silence_ms INTEGER;      -- how long an attempt may say nothing; the same
ALTER TABLE specs ADD COLUMN after TEXT;              -- JSON [id, …], ascending: the jobs that must end before it; set by the insert
ALTER TABLE specs ADD COLUMN after_any INTEGER;       -- 1: any end of those will do; set by the insert
ALTER TABLE specs ADD COLUMN parent INTEGER;          -- the job whose attempt asked for it; set by the insert
ALTER TABLE specs ADD COLUMN group_id INTEGER;        -- the group it belongs to; set by the insert
ALTER TABLE specs ADD COLUMN attached INTEGER;        -- 1: it serves its group without being a member; set by the insert
ALTER TABLE specs ADD COLUMN copy_of INTEGER;         -- the job that it is a speculative copy of; set by the insert
ALTER TABLE specs ADD COLUMN owner TEXT;              -- whose it is; set by the insert
ALTER TABLE specs ADD COLUMN tags TEXT;               -- JSON ["…", …], ascending: what it is found by; set by the insert or an edit
ALTER TABLE specs ADD COLUMN schedule TEXT;           -- the schedule that made it; set by the insert

-- Finds the jobs of a group. Immutable, and only jobs of groups pay for it.
CREATE INDEX specs_group ON specs (group_id) WHERE group_id IS NOT NULL;

-- Sets of jobs with one verdict; the members are the jobs that name them. Guarded by rev.
CREATE TABLE groups (
    id         INTEGER PRIMARY KEY, -- numbered together with jobs; set by the insert
    rev        INTEGER NOT NULL,    -- rises at every write, from 1
    name       TEXT,                -- what people call it; set by the insert
    owner      TEXT,                -- whose it is; set by the insert
    tags       TEXT    NOT NULL,    -- JSON ["…", …]; set by the insert
    retry_of   INTEGER,             -- the group whose failed members it tries again; set by the insert
    created_at INTEGER NOT NULL,    -- when it was made; set by the insert
    open       INTEGER,             -- 1: it has not ended; NULL: it has
    closed     INTEGER NOT NULL,    -- 1: it takes no more members
    cancel     TEXT,                -- JSON failure: why it is being stopped; NULL: nobody asked for that
    ended_at   INTEGER,             -- when it ended; NULL with verdict and counts: it has not
    verdict    INTEGER,             -- position in GroupVerdict::ALL
    counts     TEXT                 -- JSON [pending, active, succeeded, failed, crashed, cancelled] at its end
) STRICT;

-- Finds the groups that have not ended; a group leaves it once.
CREATE INDEX groups_open ON groups (open) WHERE open IS NOT NULL;

-- Sub-jobs by the names that their parents gave them. Set by the parent's request, gone when the parent has ended.
CREATE TABLE links (
    parent INTEGER NOT NULL, -- the job whose attempt asked
    call   TEXT    NOT NULL, -- what it calls the answer
    job    INTEGER NOT NULL, -- the job that answers
    PRIMARY KEY (parent, call)
) STRICT, WITHOUT ROWID;
