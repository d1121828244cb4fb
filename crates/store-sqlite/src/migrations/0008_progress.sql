-- The last progress of attempts that have ended.

ALTER TABLE jobs ADD COLUMN progress TEXT; -- JSON [{name, step, total, message}, …] of the last attempt; set when it ends; NULL: none was reported
ALTER TABLE attempts ADD COLUMN progress TEXT; -- the same of this attempt
