-- Audit entries below a number, newest first.
SELECT n, at, who, act, subject, detail FROM audit WHERE n < ?1 ORDER BY n DESC LIMIT ?2
