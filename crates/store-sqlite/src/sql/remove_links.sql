-- Deletes the links of a parent that has ended.
DELETE FROM links WHERE parent = ?1
