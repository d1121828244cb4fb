-- The last progress of attempts that have ended.

ALTER TABLE jobhall.jobs ADD COLUMN progress text; -- JSON [{name, step, total, message}, …] of the last attempt; set when it ends; NULL: none was reported
ALTER TABLE jobhall.attempts ADD COLUMN progress text; -- the same of this attempt
