-- Submit keys stored before this moment.
DELETE FROM submit_keys WHERE at < ?1
