-- Whether a group exists, its rev, and whether it takes no more members.
SELECT rev, closed FROM groups WHERE id = ?1
