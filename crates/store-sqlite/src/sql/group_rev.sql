-- Whether a group exists, its rev, and whether it is closed to new members.
SELECT rev, closed FROM groups WHERE id = ?1
