-- Jobs that are never started a second time.

ALTER TABLE specs ADD COLUMN at_most_once INTEGER; -- 1 if such a job; NULL otherwise; set by submit, never changes
