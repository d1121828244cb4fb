-- Groups that are stopped as failed.

ALTER TABLE jobhall.groups ADD COLUMN fails boolean NOT NULL DEFAULT false; -- its cancel stops it as failed, whatever becomes of its members
