-- Jobs that are never started a second time.

ALTER TABLE jobhall.specs ADD COLUMN at_most_once boolean; -- true if such a job; NULL otherwise; set by submit, never changes
