-- Inbox rows that are not jobs yet.
SELECT id, body FROM jobhall.inbox ORDER BY id LIMIT $1
