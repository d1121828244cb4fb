-- Acts before this moment.
DELETE FROM audit WHERE at < ?1
