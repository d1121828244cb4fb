-- Every job of the range is completed.
DELETE FROM blocks WHERE first = ?1
