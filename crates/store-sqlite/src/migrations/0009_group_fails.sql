-- Groups that are stopped as failed.

ALTER TABLE groups ADD COLUMN fails INTEGER NOT NULL DEFAULT 0; -- 1: its cancel stops it as failed, whatever becomes of its members
