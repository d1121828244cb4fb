-- Whether a group exists, its rev, whether it is closed to new members, and whether it has not ended and is not being
-- cancelled.
SELECT rev, closed, open IS NOT NULL AND cancel IS NULL FROM groups WHERE id = ?1
